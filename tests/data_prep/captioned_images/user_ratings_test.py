"""Sides of rated pairs: pictures by the end of their path, captions by their text."""

import json
import unicodedata

import pytest

from data_prep.building.record_counts import LeftOut
from data_prep.captioned_images.user_ratings import rated_pairs
from tests.data_prep.captioned_images.own_folders import write_csv
from xmodal.core.errors import UnexpectedFilesError

_IMAGES = {
    unicodedata.normalize("NFD", "a/café.jpg"): {"test": ("image", 0)},
    "a/1.jpg": {"test": ("image", 1)},
    "b/1.jpg": {"test": ("image", 2)},
    "b/beach.jpg": {"test": ("image", 3)},
    "a/2.jpg": {"test": ("image", 4)},
    "b/2.jpg": {},
    "b/3.jpg": {},
}
_CAPTIONS = {"a café": {"test": ("caption", 10)}, "beach": {"test": ("caption", 11)}}


def _pairs(folder, *rows):
    write_csv(folder / "ratings.csv", [["left", "right", "score"], *rows])
    return [pair for _, pair in rated_pairs(folder / "ratings.csv", _IMAGES, _CAPTIONS)]


def test_sides_that_look_the_same_are_the_same(tmp_path):
    names = [
        unicodedata.normalize(form, name)
        for form in ("NFC", "NFD")
        for name in ("café.jpg", "A\\CAFÉ.JPG", "café")
    ]
    for name in names:
        for caption in ("a café", unicodedata.normalize("NFD", "a café")):
            ((_, pair),) = _pairs(tmp_path, [caption, name, 3])
            assert (pair["left_id"], pair["right_id"], pair["rating"]) == (10, 0, "sits")


def test_a_caption_of_several_splits_is_in_that_of_the_other_side(tmp_path):
    captions = _CAPTIONS | {
        "a dog": {"train": ("caption", 20), "test": ("caption", 21)},
        "a cat": {"train": ("caption", 22)},
    }
    rows = [["a dog", "a/1.jpg", 1], ["a café", "a dog", 2], ["a dog", "a cat", 3]]
    write_csv(tmp_path / "ratings.csv", [["left", "right", "score"], *rows, ["a cat", "a café", 4]])
    *pairs, (_, left_out) = rated_pairs(tmp_path / "ratings.csv", _IMAGES, captions)
    found = [(split, pair["left_id"], pair["right_id"]) for split, (_, pair) in pairs]
    assert found == [("test", 21, 1), ("test", 10, 21), ("train", 20, 22)]
    assert (left_out.reason, left_out.detail) == (
        "pair of two splits",
        "left in train, right in test",
    )


def test_an_ambiguous_side_is_left_out_with_both(tmp_path):
    rows = [["1.jpg", "b/beach.jpg", 1], ["b/beach.jpg", "beach", 1], ["x/1.jpg", "a/1.jpg", 1]]
    left_out = _pairs(tmp_path, *rows)
    assert all(isinstance(pair, LeftOut) for pair in left_out)
    assert [pair.reason for pair in left_out] == [
        "ambiguous name",
        "ambiguous name",
        "neither a picture nor a caption",
    ]
    assert left_out[0].detail == "left is '1.jpg', the picture a/1.jpg and the picture b/1.jpg"
    assert left_out[1].detail == "right is 'beach', the picture b/beach.jpg and a caption"


def test_a_picture_that_is_not_used_is_not_taken_for_another(tmp_path):
    rows = [["2.jpg", "a café", 1], ["b/3.jpg", "a café", 1], ["a/2.jpg", "a café", 1]]
    ambiguous, unused, (_, pair) = _pairs(tmp_path, *rows)
    assert ambiguous.detail == "left is '2.jpg', the picture a/2.jpg and the picture b/2.jpg"
    assert (unused.reason, unused.detail) == ("picture is not used", "left is the picture b/3.jpg")
    assert pair["right_id"] == 4


def test_a_row_of_json_lines_that_lacks_a_value_is_as_one_with_an_empty_cell(tmp_path):
    path, whole = tmp_path / "ratings.jsonl", {"left": "a café", "right": "a/1.jpg", "score": 3}
    path.write_text("\n".join(map(json.dumps, [whole, {"left": "a café", "score": 3}])))
    (_, (_, pair)), (_, left_out) = rated_pairs(path, _IMAGES, _CAPTIONS)
    assert pair["right_id"] == 1
    assert left_out.detail == "right is 'None'"
    path.write_text("\n".join(map(json.dumps, [whole, {"left": "a café", "right": "beach"}])))
    with pytest.raises(UnexpectedFilesError, match="line 2: the score None is not a number"):
        list(rated_pairs(path, _IMAGES, _CAPTIONS))
