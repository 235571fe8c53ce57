"""Labeled image-caption pairs: picture numbers, leaks between splits, counts."""

import pytest

from data_prep import coherence_pairs
from data_prep.coherence_pairs import Pair


def _pair(number, picture, caption, relations=(1, 0)):
    return Pair(f"row {number}", number, -1, picture, caption, relations)


def test_a_test_pair_stays_unless_its_picture_or_caption_was_seen():
    train = [_pair(0, "a", "one"), _pair(1, "b", "two")]
    test = [
        _pair(2, "a", "three"),  # picture of train
        _pair(3, "c", "two"),  # caption of train
        _pair(4, "c", "four"),  # stays: dropped pairs do not count as seen
        _pair(5, "c", "five"),
        _pair(6, "d", "four"),
        _pair(7, "d", "three"),
    ]
    kept, dropped = coherence_pairs.deduplicated(test, train)
    assert [pair.pair_id for pair in kept] == [4, 7]
    assert dropped == {
        "picture also in train": 1,
        "caption also in train": 1,
        "picture also in an earlier row of test": 1,
        "caption also in an earlier row of test": 1,
    }


def test_pictures_are_numbered_by_the_ids_of_their_pairs_whatever_the_split():
    pairs = {
        "train": [_pair(5, "x", ""), _pair(1, "y", "")],
        "test": [_pair(0, "z", ""), _pair(3, "y", "")],
    }

    def numbers(numbered):
        return {pair.picture: pair.picture_id for group in numbered.values() for pair in group}

    numbered = coherence_pairs.with_numbers(pairs)
    assert numbers(numbered) == {"z": 0, "y": 1, "x": 2}
    released = {"x": 7, "y": 8, "z": 9}
    assert numbers(coherence_pairs.with_numbers(pairs, released)) == released
    with pytest.raises(ValueError, match="1 pictures have no number; the first is y"):
        coherence_pairs.with_numbers(pairs, {"x": 7, "z": 9})


def test_labels_are_counted():
    expected = {"train": 2, "train/Story": 2, "train/Meta": 1}
    pairs = [_pair(0, "a", "", (1, 0)), _pair(1, "b", "", (1, 1))]
    coherence_pairs.check_counts({"train": pairs}, ("Story", "Meta"), expected, "folder")
    with pytest.raises(ValueError, match="folder is not .*train/Story: 1 instead of 2"):
        coherence_pairs.check_counts({"train": pairs}, ("Meta", "Story"), expected, "folder")
