"""What a user is told about a name without a picture."""

import difflib

import pytest

from data_prep.captioned_images.nearest_name import explain, nearest

_PLACES = ["a/cat_0001.jpg", "a/cat_0002.jpg", "b/Hund.png", "c/17.jpg", "d.zip/owl.jpeg"]


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("cat_1.jpg", "a/cat_0001.jpg"),
        ("photos/cat_0002.png", "a/cat_0002.jpg"),
        ("C:\\mine\\hund.PNG", "b/Hund.png"),
        ("17.0", "c/17.jpg"),
        ("owl", "d.zip/owl.jpeg"),
    ],
)
def test_the_nearest_name(name, place):
    assert nearest(name, _PLACES) == place
    assert f"x.csv: there is no picture {name!r}; the nearest name is {place!r}; " in explain(
        name, "x.csv", _PLACES
    )


def test_the_nearest_of_many_is_that_of_a_comparison_with_all():
    names = [f"{n:04d}.jpg" for n in range(3000)]
    for name in ("1234", "0077.jpeg", "1234.jpg.png"):
        found = nearest(name, names)
        best = max(difflib.SequenceMatcher(None, each, name).ratio() for each in names)
        assert difflib.SequenceMatcher(None, found, name).ratio() == best


def test_remedies():
    assert "were written as decimals" in explain("3.0", "x.csv", _PLACES)
    assert '{"image": "COLUMN"} in captioned_images.json' in explain("3", "x.csv", _PLACES)
    assert "nor any other; copy the pictures there" in explain("3", "x.csv", [])
