"""Lists in cells of text tables."""

import json

import numpy as np
import pytest

from data_prep.building.record_counts import LeftOut
from data_prep.captioned_images.captioned_pictures import cell_captions
from data_prep.captioned_images.cell_lists import list_items

_CAPTIONS = ["a dog", 'it\'s "big"', 'a "cat"', "two\nlines", "back\\slash", "a, b", "naïve 犬"]


@pytest.mark.parametrize(
    "write",
    [
        json.dumps,
        lambda texts: json.dumps(texts, ensure_ascii=False),
        str,
        lambda texts: str(tuple(texts)),
        lambda texts: str(np.array(texts, object)),
        lambda texts: str(np.array(texts)),
        lambda texts: np.array2string(np.array(texts, object), separator=", "),
        lambda texts: repr(np.array(texts, object)),
        lambda texts: repr(np.array(texts)),
        lambda texts: "[" + ", ".join(f"u{text!r}" for text in texts) + "]",
        lambda texts: str([text.encode() for text in texts]),
        lambda texts: str(np.array([text.encode() for text in texts])),
    ],
)
@pytest.mark.parametrize("count", [1, 2, len(_CAPTIONS)])
def test_every_spelling_gives_the_same_captions(write, count):
    assert list_items(f" {write(_CAPTIONS[:count])} ") == _CAPTIONS[:count]


@pytest.mark.parametrize(
    "cell", ["['a', nan]", '["a", null]', "['a', None]", "['a' nan]", '["a", NaN]', "['a',\n <NA>]"]
)
def test_missing_values_in_a_list_are_left_out_and_reported(cell):
    caption, missing = cell_captions([cell], "a.csv line 2")
    assert caption == "a"
    assert isinstance(missing, LeftOut)
    assert (missing.reason, missing.is_record) == ("empty caption", False)


@pytest.mark.parametrize(
    "cell", ["", "nan", "NA", "#N/A", "[]", "[nan]", "['']", '[""]', None, float("nan")]
)
def test_a_cell_without_a_caption(cell):
    (missing,) = cell_captions([cell], "a.csv line 2")
    assert isinstance(missing, LeftOut)
    assert missing.reason == "empty caption"


@pytest.mark.parametrize(
    "cell",
    [
        "['it's broken', 'b']",
        "['a' 'b', 'c']",
        "['a''b']",
        "['a' ... 'b']",
        "['a', 'b",
        "['a', 7]",
        "{'raw': 'a'}",
        "array(['a', 'b'",
        "['a']['b']",
        "[['a'], ['b']]",
        "[{'raw': 'a', 'id': 1}]",
        "[3.0, 'a']",
        "{1: 'a', 2: 'b'}",
        "['a', b'\\xff']",
        "['a', b'é']",
        r"['C:\users', 'a']",
        'c("a", "b")',
        r'"[\"a\", \"b\"]"',
        "b'a dog'",
    ],
)
def test_what_only_starts_like_a_list_is_no_caption(cell):
    (bad,) = cell_captions([cell], "a.csv line 2")
    assert isinstance(bad, LeftOut)
    assert bad.reason == "unreadable list"
    assert bad.detail == f"{cell!r:.80} starts like a list"


@pytest.mark.parametrize(
    "cell",
    [
        "[Music]",
        "(a dog)",
        "('a dog')",
        "('a dog') barks",
        "a list ['a', 'b']",
        "[None of them]",
        "[2] 'a'",
        '"[sic] a dog"',
        "b'day",
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


def test_a_list_without_quotes_may_be_one_caption():
    for cell in ("[a dog, a cat]", "[a dog,\n a cat]"):
        (bad,) = cell_captions([cell], "a.csv line 2")
        assert bad.reason == "unreadable list"
        assert bad.detail.endswith("or one caption; write lists as JSON, captions without brackets")
    cell = "[a dog, a cat] in the grass"
    assert list(cell_captions([cell], "a.csv line 2")) == [cell]
