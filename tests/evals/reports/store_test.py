"""Results survive a round trip, and other files give clear error messages."""

import dataclasses
import io
import json

import numpy as np
import pytest

from xmodal.core.errors import UserError
from xmodal.core.result_files import write_files
from xmodal.evals.reports import store
from xmodal.evals.reports.results import BoardResult, CorrelationResult, DirectionResult


def make_results():
    generator = np.random.default_rng(0)
    full = DirectionResult(
        query_ids=generator.permutation(np.arange(7_000_000_000, 7_000_000_013)),
        clusters=generator.integers(0, 4, 13).astype(np.int32),
        values={"recall@1": 100.0 * (generator.random(13) < 0.5), "map@r": generator.random(13)},
        rank=generator.integers(0, 99, 13).astype(np.int32),
        tied=generator.random(13) < 0.3,
        gallery=np.int64(100),
        skipped=3,
        has_median=True,
    )
    truncated = dataclasses.replace(
        full,
        rank=None,
        tied=None,
        has_median=False,
        values={},
        missing={"recall@10": "lists of 5 items"},
    )
    samples = generator.random(17)
    samples[3] = np.nan
    return [
        BoardResult(
            "cxc",
            "Own pairs — and rated ones.",
            "0123456789abcdef",
            {"i2t": full, "t2t": truncated},
            {"sts": CorrelationResult(samples, 13, np.arange(80).reshape(2, 40), samples[:16])},
            {"i2i": "no images"},
        ),
        BoardResult("pmrp", "Plausible.", "ff", {}, {}),
    ]


def assert_same(one, other):
    assert type(one) is type(other) or isinstance(one, int | np.integer)
    if dataclasses.is_dataclass(one):
        for field in dataclasses.fields(one):
            assert_same(getattr(one, field.name), getattr(other, field.name))
    elif isinstance(one, dict):
        assert list(one) == list(other)
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, list):
        assert len(one) == len(other)
        for pair in zip(one, other, strict=True):
            assert_same(*pair)
    elif isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    else:
        assert one == other


def _save(path, results, **keywords):
    stored = store.StoredResults(results, **keywords)
    write_files(path.parent, {path.name: store.pack_ranks(stored)})


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "out" / "ranks.npz"
    _save(path, make_results(), name="ours")
    return path


def test_round_trip(saved):
    loaded = store.load_ranks(saved)
    assert loaded.name == "ours"
    assert_same(make_results(), loaded.results)
    assert [entry.name for entry in saved.parent.iterdir()] == ["ranks.npz"]


def test_ranks_are_readable_without_xmodal(saved):
    with np.load(saved, allow_pickle=False) as file:
        np.testing.assert_array_equal(
            file["cxc/i2t/rank"], make_results()[0].directions["i2t"].rank
        )
        assert not {"cxc/t2t/rank", "cxc/t2t/tied"} & set(file)
        assert json.loads(str(file["header"]))["boards"][0]["label_hash"] == "0123456789abcdef"


def test_same_results_same_bytes(saved, tmp_path):
    again = tmp_path / "again.npz"
    _save(again, make_results(), name="ours")
    assert again.read_bytes() == saved.read_bytes()


def test_a_folder_stands_for_its_file(saved):
    for path in (saved, saved.parent, f"{saved.parent}/"):
        loaded = store.load_ranks(path)
        assert loaded.name_beside("theirs") == "ours"
        assert loaded.name_beside("ours") == f"ours ({saved.parent})"
    message = f"no file .*ranks.npz; name the output folder .*, such as {saved.parent}, or its "
    with pytest.raises(UserError, match=message):
        store.load_ranks(saved.parent.parent)


def test_evaluations_of_a_run_of_a_command_and_of_one_folder(tmp_path):
    for place in ("run/test/own", "run/test/other", "run/step_8/test/own", "out/own"):
        _save(tmp_path / place / "ranks.npz", make_results(), name="ours")
    (tmp_path / "run/checkpoints").mkdir()
    run = {name: tmp_path / "run/test" / name for name in ("other", "own")}
    assert store.find_evaluations(tmp_path / "run") == run
    assert store.find_evaluations(tmp_path / "run/test") == run
    assert store.find_evaluations(tmp_path / "out") == {"own": tmp_path / "out/own"}
    one = tmp_path / "out/own"
    assert store.find_evaluations(one) == {store.SINGLE: one}
    assert store.find_evaluations(one / "ranks.npz") == {}
    assert store.find_evaluations(tmp_path / "none") == {}
    with pytest.raises(UserError, match=f"evaluation, such as {run['other']}, or its"):
        store.load_ranks(tmp_path / "run")


def with_header(saved, **changes):
    with np.load(saved) as file:
        arrays = dict(file)
    header = json.loads(str(arrays["header"])) | changes
    return npz(**(arrays | {"header": np.array(json.dumps(header))}))


def npz(**arrays):
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def flip(content, at):
    return content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda saved: b"", "is not an npz file"),
        (lambda saved: b'{"cxc/i2t/recall@1": 50.0}', "is not an npz file"),
        (lambda saved: npy(np.zeros(3)), "is not an npz file"),
        (lambda saved: saved.read_bytes()[:-40], "cut off or damaged"),
        (lambda saved: saved.read_bytes()[:900], "cut off or damaged"),
        (lambda saved: npz(image_ids=np.zeros(3)), r"arrays \['image_ids'\] but no header"),
        (lambda saved: npz(header=np.array("[]")), "no header of an evaluation"),
        (lambda saved: npz(header=np.array("text")), "cut off or damaged"),
        (lambda saved: npz(header=np.array(["a", {}], object)), "cut off or damaged"),
        (lambda saved: with_header(saved, version=1), "has version 1 .* this is version 2"),
        (lambda saved: with_header(saved, boards=[{"name": "x"}]), "cut off or damaged"),
        (
            lambda saved: with_header(saved, boards=[{"name": "x", "directions": []}]),
            "cut off or damaged",
        ),
        (lambda saved: with_header(saved, records="x"), "cut off or damaged"),
    ],
)
def test_other_files_are_refused(saved, change, message):
    saved.write_bytes(change(saved))
    with pytest.raises(UserError, match=f"ranks.npz.*{message}"):
        store.load_ranks(saved)


def test_damage_is_noticed_or_does_not_matter(saved):
    content = saved.read_bytes()
    refused = 0
    for at in range(0, len(content), 7):
        saved.write_bytes(flip(content, at))
        try:
            loaded = store.load_ranks(saved)
        except UserError:
            refused += 1
        else:  # a date, say
            assert_same(make_results(), loaded.results)
    assert refused > len(content) / 7 / 2


@pytest.mark.parametrize("name", ["nothing.npz", "."])
def test_no_file(tmp_path, name):
    with pytest.raises(
        UserError, match=r"There is no file .*; name the output folder .*ranks\.npz"
    ):
        store.load_ranks(tmp_path / name)
