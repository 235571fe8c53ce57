"""Labeled image-caption pairs: picture numbers, leaks between splits, counts."""

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
    kept, dropped = coherence_pairs._deduplicated(test, train)
    assert [pair.pair_id for pair in kept] == [4, 7]
    assert dropped == {
        "picture also in train": 1,
        "caption also in train": 1,
        "picture also in an earlier row of test": 1,
        "caption also in an earlier row of test": 1,
    }
