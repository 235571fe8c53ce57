"""Columns with usual names: one that the contents allow, or an error that shows two."""

import json

import pyarrow
import pyarrow.parquet
import pytest

from data_prep.building.record_counts import LeftOut
from data_prep.captioned_images.find_layout import find_layout
from data_prep.captioned_images.options import ReadingOptions
from tests.data_prep.captioned_images import own_folders as folders
from xmodal.core.errors import UnexpectedFilesError

_COUNT = 10
_SHUFFLED = [7, 3, 0, 9, 1, 5, 8, 2, 6, 4]


def _csv(folder, columns):
    folders.write_csv(folder / "all.csv", [[*columns], *zip(*columns.values(), strict=True)])


def _json_lines(folder, columns):
    rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    (folder / "all.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def _parquet(folder, columns):
    pyarrow.parquet.write_table(pyarrow.table(columns), folder / "all.parquet")


_WRITERS = pytest.mark.parametrize("write", [_csv, _json_lines, _parquet])


def _read(folder, **options):
    """Caption and split of every picture, by its name."""
    found = find_layout(folder, ReadingOptions(**options)).pictures()
    return {i.name: (*i.captions, i.split) for i in found if not isinstance(i, LeftOut)}


@pytest.fixture
def pictures(tmp_path):
    """A folder of pictures that are named by numbers."""
    for number in range(_COUNT):
        (tmp_path / f"{number}.jpg").write_bytes(b"a picture")
    return tmp_path


_NAMES = [f"{number}.jpg" for number in _SHUFFLED]
_CAPTIONS = [f"caption {number}" for number in "abcdefghij"]
_RIGHT = {name: (caption, "") for name, caption in zip(_NAMES, _CAPTIONS, strict=True)}


@_WRITERS
@pytest.mark.parametrize(
    ("first", "second", "values"),
    [
        ("image", "file_name", range(_COUNT)),
        ("filename", "image_id", range(_COUNT)),
        ("img", "path", [f"{number}.jpg" for number in range(_COUNT)]),
    ],
)
def test_two_columns_that_name_different_pictures_are_an_error(
    pictures, write, first, second, values
):
    others = first if first == "filename" else second
    write(pictures, {first: values, second: values, "caption": _CAPTIONS} | {others: _NAMES})
    message = rf"all\..*: .*0.* and .*7.* are in the columns '{first}' and '{second}', .* images "
    if first == "filename":
        message = rf": '7.jpg' and '?0'? are in the columns '{first}' and '{second}'"
    with pytest.raises(UnexpectedFilesError, match=message) as error:
        _read(pictures)
    error.match(rf'choose with {{"image": "{first}"}} or {{"image": "{second}"}} in captioned')
    assert _read(pictures, image=others) == _RIGHT


def test_numbers_of_all_pictures_do_not_hide_names_of_some(pictures):
    names = [f"lost{name}" if place % 2 else name for place, name in enumerate(_NAMES)]
    _csv(pictures, {"image": range(_COUNT), "file_name": names, "caption": _CAPTIONS})
    with pytest.raises(UnexpectedFilesError, match="line 2: '0' and '7.jpg' are in the columns"):
        _read(pictures)


@_WRITERS
@pytest.mark.parametrize(
    "values",
    [
        range(100, 100 + _COUNT),  # an index of no pictures
        [*range(100, 100 + _COUNT - 1), 3],  # one that happens to fit
        [f"https://a.b/{name}" for name in _NAMES],
        [f"a title, {name}" for name in _NAMES],
        [f"/elsewhere/{name}" for name in _NAMES],
        [name.removesuffix(".jpg") for name in _NAMES],  # the same pictures
    ],
)
@pytest.mark.parametrize(("first", "second"), [("image", "filename"), ("file_name", "image_id")])
def test_the_only_column_that_can_name_the_pictures_is_taken(
    pictures, write, values, first, second
):
    write(pictures, {first: list(values), second: _NAMES, "caption": _CAPTIONS})
    assert _read(pictures) == _RIGHT


def test_an_ambiguous_name_is_less_than_a_path(pictures):
    for place in ("cats", "dogs"):
        (pictures / place).mkdir()
        (pictures / place / "a.jpg").write_bytes(b"another picture")
    columns = {"image": ["a.jpg"], "path": ["dogs/a.jpg"], "caption": ["a dog"]}
    _csv(pictures, columns)
    assert _read(pictures) == {"dogs/a.jpg": ("a dog", "")}


@_WRITERS
@pytest.mark.parametrize(("first", "second"), [("caption", "text"), ("title", "description")])
def test_two_columns_of_different_captions_are_an_error(pictures, write, first, second):
    others = [f"words {number}" for number in range(_COUNT)]
    others[0] = ""
    write(pictures, {"image": _NAMES, first: _CAPTIONS, second: others})
    message = r"all\..*: '(caption b|words 1)' and '(caption b|words 1)' are in the columns"
    with pytest.raises(UnexpectedFilesError, match=message) as error:
        _read(pictures)
    for name in (first, second):
        error.match(rf'{{"captions": "{name}"}}')
    assert _read(pictures, captions=(first,)) == _RIGHT
    assert _read(pictures, captions=(first, second))["3.jpg"] == ("caption b", "words 1", "")


@_WRITERS
@pytest.mark.parametrize(
    "others",
    [
        [""] * _COUNT,
        [str(number) for number in range(_COUNT)],
        ["#N/A"] * _COUNT,
        [f"  {caption.upper()}." for caption in _CAPTIONS],
    ],
)
def test_columns_that_say_no_more_are_not_read(pictures, write, others):
    write(pictures, {"image": _NAMES, "caption": others, "text": _CAPTIONS})
    found = _read(pictures)
    assert {name: texts[0].strip(" .").lower() for name, texts in found.items()} == {
        name: texts[0] for name, texts in _RIGHT.items()
    }


def test_the_column_with_all_captions_is_taken(pictures):
    lists = [json.dumps([caption, f"more of {caption}"]) for caption in _CAPTIONS]
    _csv(pictures, {"image": _NAMES, "caption": _CAPTIONS, "captions": lists})
    assert _read(pictures)["7.jpg"] == ("caption a", "more of caption a", "")


@_WRITERS
@pytest.mark.parametrize(("first", "second"), [("split", "set"), ("partition", "subset")])
def test_two_columns_of_different_splits_are_an_error(pictures, write, first, second):
    splits = {first: ["train", "val"] * 5, second: ["train", "test"] * 5}
    write(pictures, {"image": _NAMES, "caption": _CAPTIONS, **splits})
    with pytest.raises(UnexpectedFilesError, match="'(val|test)' and '(val|test)' are in") as error:
        _read(pictures)
    error.match(rf'{{"split": "{first}"}}')
    assert [texts[-1] for texts in _read(pictures, split=second).values()] == ["train", "test"] * 5
    assert {texts[-1] for texts in _read(pictures, split="none").values()} == {""}


@_WRITERS
@pytest.mark.parametrize("others", ["ab", ["", ""], ["training", "DEV"]])
def test_a_column_of_other_sets_is_no_second_split(pictures, write, others):
    columns = {"set": [*others] * 5, "split": ["train", "val"] * 5}
    write(pictures, {"image": _NAMES, "caption": _CAPTIONS, **columns})
    assert [texts[-1] for texts in _read(pictures).values()] == ["train", "validation"] * 5


def test_a_conflict_is_not_hidden_by_other_captions(pictures):
    _csv(pictures, {"image": _NAMES, "caption": _CAPTIONS, "text": _CAPTIONS[::-1]})
    (pictures / "3.txt").write_text("a text beside a picture")
    with pytest.raises(UnexpectedFilesError, match="'caption' and 'text'"):
        _read(pictures)
    (pictures / "all.csv").unlink()
    # A table without captions may be anything.
    _csv(pictures, {"image": list(range(_COUNT)), "file_name": _NAMES, "size": _NAMES})
    assert _read(pictures)["3.jpg"] == ("a text beside a picture", "")


def test_two_keys_of_different_splits_are_an_error(pictures):
    (pictures / "3.json").write_text('{"caption": "one", "split": "train", "set": "test"}')
    with pytest.raises(UnexpectedFilesError, match=r"3\.jpg.* several splits, .*'set': 'test'"):
        _read(pictures)
    assert _read(pictures, split="set")["3.jpg"] == ("one", "test")


def test_bare_numbers_do_not_replace_names_that_are_not_found(pictures):
    paths = [f"photos/{name}" for name in _NAMES]
    _csv(pictures, {"image": range(_COUNT), "filepath": paths, "caption": _CAPTIONS})
    # None of these is in the folder, which ends the build.
    assert set(_read(pictures)) == set(paths)
