"""Results survive a round trip, and other files give clear error messages."""

import dataclasses
import io
import json

import numpy as np
import pytest

from xmodal.core.errors import UserError
from xmodal.evals import Evaluation
from xmodal.evals.reports import evaluation
from xmodal.evals.reports.results import CorrelationResult, DirectionResult, Provenance, Result


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
    missing = {"recall@10": "lists of 5 items"}
    truncated = dataclasses.replace(full, rank=None, tied=None, values={}, missing=missing)
    samples = generator.random(17)
    samples[3] = np.nan
    sts = CorrelationResult(samples, 13, np.arange(80).reshape(2, 40), samples[:16])
    directions, skipped = {"i2t": full, "t2t": truncated}, {"i2i": "no images"}
    return [
        Result("cxc", "Pairs — rated.", "0123456789abcdef", directions, {"sts": sts}, skipped),
        Result("pools", "Pools.", "ff", repeats={"t2i/recall@1": np.arange(3.0)}),
    ]


@pytest.fixture
def saved(tmp_path):
    stored = Evaluation("ours", make_results(), "cosine", Provenance("t"))
    (tmp_path / "ranks.npz").write_bytes(evaluation.pack_ranks(stored))
    return tmp_path / "ranks.npz"


def test_round_trip(saved):
    loaded = evaluation.load_ranks(saved)
    assert loaded.name == "ours"
    assert evaluation.pack_ranks(loaded) == saved.read_bytes()  # Nothing was lost.
    (found, pools), (expected, _) = loaded.results, make_results()
    assert pools.repeats["t2i/recall@1"].tolist() == [0, 1, 2]
    for name, direction in expected.directions.items():
        for field, value in vars(direction).items():
            np.testing.assert_equal(getattr(found.directions[name], field), value)

    # Readable without xmodal.
    with np.load(saved, allow_pickle=False) as file:
        np.testing.assert_array_equal(file["cxc/i2t/rank"], expected.directions["i2t"].rank)
        assert not {"cxc/t2t/rank", "cxc/t2t/tied"} & set(file)


def with_header(saved, **changes):
    with np.load(saved) as file:
        arrays = dict(file)
    header, buffer = json.loads(str(arrays["header"])) | changes, io.BytesIO()
    np.savez(buffer, **(arrays | {"header": np.array(json.dumps(header))}))
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda saved: b'{"cxc/i2t/recall@1": 50.0}', "or it is damaged"),
        (lambda saved: with_header(saved, version=1), "version 1 of xmodal ranks"),
    ],
)
def test_other_files_are_refused(saved, change, message):
    saved.write_bytes(change(saved))
    with pytest.raises(UserError, match=f"ranks.npz.*{message}"):
        evaluation.load_ranks(saved)


def test_results_to_compare_with_are_those_of_the_evaluator_or_of_the_same_labels(tmp_path):
    for name, result in zip(("coco", "topics"), make_results(), strict=True):
        (tmp_path / name).mkdir()
        packed = evaluation.pack_ranks(Evaluation(name, [result], "cosine", Provenance("t")))
        (tmp_path / name / "ranks.npz").write_bytes(packed)
    assert evaluation.find_ranks(tmp_path, "topics").name == "topics"
    assert evaluation.find_ranks(tmp_path, "", {"cxc": "0123456789abcdef"}).name == "coco"
    assert evaluation.find_ranks(tmp_path / "coco", "other").name == "coco"
    with pytest.raises(UserError, match="has 0 evaluations on the labels"):
        evaluation.find_ranks(tmp_path, "other", {"cxc": "ff"})
