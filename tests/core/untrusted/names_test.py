"""Spellings of names."""

import unicodedata

import pytest

from xmodal.core.untrusted.names import is_inside, name_key


@pytest.mark.parametrize(
    "spellings",
    [
        ["cat", "Cat", " CAT ", "\uff43at"],
        ["polar bear", "polar_bear", "Polar  Bear_", "polar\u00a0bear"],
        [unicodedata.normalize(form, "Straße Ärger") for form in ("NFC", "NFD")]
        + ["STRASSE ÄRGER"],
    ],
)
def test_spellings_of_one_name_have_one_key(spellings):
    assert len(set(map(name_key, spellings))) == 1


def test_other_names_have_other_keys():
    names = ["c", "c++", "c#", "polar bear", "polarbear", "polar-bear", "Älg", "Alg"]
    assert len(set(map(name_key, names))) == len(names)


def test_names_that_leave_their_folder():
    outside = ("../other", "/etc/passwd", "a/../../other", "..\\other", "C:\\other", "a/..", "a\0b")
    assert not any(map(is_inside, outside))
    assert is_inside("a/b..c.jpg")
