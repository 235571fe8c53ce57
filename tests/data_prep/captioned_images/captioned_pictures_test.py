"""Cells of tables: captions, lists of captions, and what stands for a missing value."""

import json

import pytest

from data_prep.building.record_counts import LeftOut
from data_prep.captioned_images.captioned_pictures import cell_captions
from tests.data_prep.captioned_images import own_folders as folders

_CAPTIONS = ["a dog", 'it\'s "big"', "two\nlines", "back\\slash", "a, b", "naïve 犬"]


@pytest.mark.parametrize("count", [1, 2, len(_CAPTIONS)])
def test_lists_in_json_are_read(count):
    texts = _CAPTIONS[:count]
    assert list(cell_captions([f" {json.dumps(texts)} "], "a.csv line 2")) == texts
    assert list(cell_captions([texts], "a.parquet row 2")) == texts


@pytest.mark.parametrize("cell", ['["a", null]', '["a", NaN]', ["a", None]])
def test_missing_values_in_a_list_are_left_out_and_reported(cell):
    caption, missing = cell_captions([cell], "a.csv line 2")
    assert caption == "a"
    assert (missing.reason, missing.is_record) == ("empty caption", False)


@pytest.mark.parametrize("cell", ["", "nan", "NA", "[]", "[NaN]", '[""]', None, float("nan")])
def test_a_cell_without_a_caption(cell):
    (missing,) = cell_captions([cell], "a.csv line 2")
    assert isinstance(missing, LeftOut)
    assert missing.reason == "empty caption"


# As Excel, LibreOffice and Google Sheets show them, also in other languages.
_ERROR_VALUES = [
    *("#NAME?", "#REF!", "#VALUE!", "#DIV/0!", "#NUM!", "#NULL!", "#N/A", "#ERROR!", "#SPILL!"),
    *("#CALC!", "#GETTING_DATA", "#FIELD!", "Err:502", "####", "#BEZUG!", "#NV", "#¿NOMBRE?"),
    *("#VALEUR!", "#ДЕЛ/0!", "#N/D"),
]


@pytest.mark.parametrize("cell", _ERROR_VALUES)
def test_error_values_of_spreadsheets_are_listed_as_empty_captions(cell):
    (missing,) = cell_captions([f"{cell} "], "a.csv line 2")
    assert (missing.reason, missing.detail) == ("empty caption", repr(f"{cell} "))
    assert list(cell_captions(["a dog", cell], "a.csv line 2")) == [
        "a dog",
        LeftOut("a.csv line 2", "empty caption", repr(cell), is_record=False),
    ]


@pytest.mark.parametrize(
    "cell", ["#dog", "#Dogs!", "#1!", "# 1", "#DOGS", "##", "Is it #REF!?", "Err: 502", "#1/2"]
)
def test_captions_like_error_values(cell):
    assert list(cell_captions([cell], "a.csv line 2")) == [cell]


def test_error_values_name_no_image_and_no_split(tmp_path):
    folders.write_images(tmp_path, folders.FEW)
    rows = [[folders.name(n), f"caption {n}", "train"] for n in folders.FEW]
    rows += [["#REF!", "whose?", "train"], [folders.name(0), "#NAME?", "#N/A"]]
    rows[0][2] = "#VALUE!"
    folders.write_csv(tmp_path / "all.csv", [["image", "caption", "split"], *rows])
    found, left_out = folders.read_layout(tmp_path)
    assert found == folders.captions_at("images/")
    assert left_out == {"all.csv line 5": "no image name", "all.csv line 6": "empty caption"}


@pytest.mark.parametrize(
    "cell",
    [
        "['a', 'b']",
        "('a', 'b')",
        "['a'\n 'b']",
        "array(['a', 'b'], dtype=object)",
        "['a', nan]",
        "{'raw': 'a'}",
        "[{'raw': 'a', 'id': 1}]",
        "[3.0, 'a']",
        'c("a", "b")',
        r'"[\"a\", \"b\"]"',
        "b'a dog'",
        "[a dog, a cat]",
        '["a", "b"',
    ],
)
def test_lists_in_other_notations_are_no_captions(cell):
    (bad,) = cell_captions([cell], "a.csv line 2")
    assert bad.reason == "unreadable list"
    assert bad.detail.startswith(f"{cell!r} looks like a list; write lists as JSON")


@pytest.mark.parametrize(
    "cell",
    [
        *("[Music]", "(a dog)", "('a dog')", "('a dog') barks", "a list ['a', 'b']", "[2] 'a'"),
        *('"[sic] a dog"', "b'day", "[a dog, a cat] in the grass", "[None of them]"),
    ],
)
def test_captions_with_brackets(cell):
    assert list(cell_captions([cell], "a.csv line 2")) == [cell]


def test_numbers_in_a_list_are_no_captions():
    found = list(cell_captions(["[1, 2]", '["a", 3]'], "a.csv line 2"))
    assert [each if isinstance(each, str) else each.reason for each in found] == [
        *["caption is no text"] * 2,
        "a",
        "caption is no text",
    ]
