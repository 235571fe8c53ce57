"""Names stand for the paths that end in them, in any spelling that looks the same."""

import unicodedata

import pytest

from data_prep.captioned_images.path_index import PathIndex

_NFC, _NFD = (unicodedata.normalize(form, "Zürich/café_1.jpg") for form in ("NFC", "NFD"))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cats/1.jpg", ["a/cats/1.jpg"]),
        ("a/cats/1.jpg", ["a/cats/1.jpg"]),
        ("ats/1.jpg", []),  # the end of a component
        ("birds/1.jpg", []),
        ("b/cats/1.jpg", []),
        ("1.jpg", ["a/cats/1.jpg", "a/dogs/1.jpg"]),
        ("2.jpg", ["a/dogs/2.jpg"]),
        ("./dogs/2.jpg", ["a/dogs/2.jpg"]),
        ("dogs\\2.jpg", ["a/dogs/2.jpg"]),
        ("DOGS/2.JPG", ["a/dogs/2.jpg"]),
        ("dogs/2", ["a/dogs/2.jpg"]),
        ("dogs/22.05", ["a/dogs/22.05.png"]),
        ("22", []),
        ("2.png", []),
    ],
)
def test_names_match_whole_components(name, expected):
    index = PathIndex(["a/cats/1.jpg", "a/dogs/1.jpg", "a/dogs/2.jpg", "a/dogs/22.05.png"])
    assert index.find(name) == expected


def test_the_spelling_as_written_comes_first():
    index = PathIndex(["a/X.jpg", "b/x.jpg", "c/x.JPG", "d/x"])
    assert index.find("x.jpg") == ["b/x.jpg"]
    assert index.find("X.JPG") == ["a/X.jpg", "b/x.jpg", "c/x.JPG"]
    assert index.find("x") == ["d/x"]


@pytest.mark.parametrize("path", [_NFC, _NFD], ids=["composed", "decomposed"])
@pytest.mark.parametrize("name", [_NFC, _NFD], ids=["composed", "decomposed"])
def test_names_that_look_the_same_are_the_same(path, name):
    index = PathIndex([f"images/{path}", "images/other.jpg"])
    for spelled in (name, name.rpartition("/")[2], name.upper(), name.removesuffix(".jpg")):
        assert index.find(spelled) == [f"images/{path}"]
    # Two files that look the same: the one as written, or both.
    both = PathIndex([f"a/{_NFC}", f"b/{_NFD}"])
    assert len(both.find(name)) == 1
    assert len(both.find(name.upper())) == 2


def test_a_whole_path_is_not_ambiguous():
    index = PathIndex(["1.jpg", "small/1.jpg", "t/1.jpg"])
    assert index.find("1.jpg", ["1.jpg"]) == ["1.jpg"]
    assert index.find("1.jpg", ["t/1.jpg", "1.jpg"]) == ["1.jpg", "t/1.jpg"]
    assert len(index.find("1.jpg", ["nowhere/1.jpg"])) == 3
