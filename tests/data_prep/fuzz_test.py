"""Files broken in every way give a dataset with exact counts or one clear error, nothing else.

Every case is drawn from its name, so that it is the same on every machine. To run a single failing
case: `pytest tests/data_prep/fuzz_test.py -k "clue-labels and nul"`.
"""

import codecs
import gzip
import shutil
import zlib

import numpy as np
import pytest

from tests.data_prep.fuzzing import mutations
from tests.data_prep.fuzzing.attempts import attempt
from tests.data_prep.fuzzing.contents import photograph
from tests.data_prep.fuzzing.stand_ins import STAND_INS

# These files have checksums that detect damage, so all kept records are as published.
_CHECKSUMS = (".zip", ".gz", ".npz")
_KINDS = [
    *mutations.BYTES,
    *mutations.LINES,
    *mutations.VALUES,
    *mutations.MEMBERS,
    *mutations.FILES,
]
# Alternate kinds between consecutive stand-ins, so that each kind applies to half of them.
_CASES = [
    pytest.param(stand_in, kind, id=f"{stand_in}-{kind}")
    for row, stand_in in enumerate(STAND_INS)
    for place, kind in enumerate(_KINDS)
    if (row + place) % 2 == 0
]


@pytest.fixture(scope="module")
def intact(tmp_path_factory):
    """Returns the folder of an intact stand-in and the records read from it, cached."""
    made = {}

    def make(stand_in):
        if str(stand_in) not in made:
            folder = tmp_path_factory.mktemp(str(stand_in))
            (folder / "files").mkdir()
            stand_in.write(folder / "files", photograph)
            outcome = attempt(stand_in, folder / "files", folder)
            made[str(stand_in)] = folder / "files", outcome
        return made[str(stand_in)]

    return make


@pytest.fixture(autouse=True)
def _few_records(request, monkeypatch):
    for target, value in request.getfixturevalue("stand_in").patches.items():
        monkeypatch.setattr(target, value)


@pytest.mark.parametrize("stand_in", STAND_INS, ids=str)
def test_intact_files_lose_nothing(stand_in, intact):
    outcome = intact(stand_in)[1]
    assert outcome.error is None
    assert outcome.rows == outcome.converted == 0
    assert not any(outcome.left_out.values())


@pytest.mark.parametrize("stand_in", STAND_INS, ids=str)
def test_byte_order_marks_change_nothing(stand_in, intact, tmp_path):
    source, expected = intact(stand_in)
    folder = tmp_path / "files"
    shutil.copytree(source, folder)
    for path in folder.rglob("*"):
        if path.name.endswith(mutations.TEXTS):
            content = path.read_bytes()
            is_packed = path.suffix == ".gz"
            text = codecs.BOM_UTF8 + (gzip.decompress(content) if is_packed else content)
            path.write_bytes(gzip.compress(text) if is_packed else text)
    outcome = attempt(stand_in, folder, tmp_path)
    assert outcome.error is None
    assert outcome.kept == expected.kept


@pytest.mark.parametrize(("stand_in", "kind"), _CASES)
def test_broken_files(stand_in, kind, intact, tmp_path):
    source, expected = intact(stand_in)
    folder = tmp_path / "files"
    shutil.copytree(source, folder)
    rng = np.random.default_rng(zlib.crc32(f"{stand_in} {kind}".encode()))
    try:
        name = mutations.mutate(folder, kind, rng)
    except mutations.NotApplicableError:
        pytest.skip("no file of this form")
    outcome = attempt(stand_in, folder, tmp_path)
    if outcome.error is not None:
        assert str(outcome.error).strip(), "an error without a message"
        return
    left_out = sum(sum(reasons.values()) for reasons in outcome.left_out.values())
    assert outcome.rows == left_out + outcome.parts, "the listing differs from the counts"
    if stand_in.is_counted:
        assert outcome.records() == expected.records()
    if kind in mutations.VALUES:  # neither another id nor one that was not an integer
        assert outcome.ids <= expected.ids
    if name.endswith(_CHECKSUMS) and kind in mutations.BYTES:
        for split, kept in outcome.kept.items():
            assert kept.items() <= expected.kept[split].items()


@pytest.mark.parametrize("kind", mutations.IMAGES)
@pytest.mark.parametrize("stand_in", [s for s in STAND_INS if s.num_images], ids=str)
def test_one_bad_image_costs_one_image(stand_in, kind, intact, tmp_path):
    expected = intact(stand_in)[1]
    make, is_usable = mutations.IMAGES[kind]
    (tmp_path / "files").mkdir()
    stand_in.write(tmp_path / "files", lambda n: make() if n == 1 else photograph(n))
    outcome = attempt(stand_in, tmp_path / "files", tmp_path)
    if outcome.error is not None:  # the only image of a split
        assert "no usable record in split" in str(outcome.error)
        return
    changed = sum(
        expected.kept[split][key] != kept.get(key)
        for split, kept in outcome.kept.items()
        for key in expected.kept[split]
    )
    assert changed >= 1
    assert outcome.records() == expected.records()
    if is_usable:
        assert outcome.rows == 0
    else:
        assert outcome.rows == changed
