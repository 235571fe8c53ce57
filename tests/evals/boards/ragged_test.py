"""Rows of different lengths: grouping and membership against Python sets."""

import numpy as np
import pytest

from xmodal.evals.boards.ragged import Ragged

PAIRS = [(2, 7), (0, 3), (2, 0), (0, 3), (2, 5), (4, 9)]  # rows 1 and 3 are empty


def make_rows():
    rows, values = np.array(PAIRS).T
    return Ragged.from_pairs(rows, values, 5)


def test_pairs_are_grouped_sorted_and_kept_once():
    ragged = make_rows()
    assert ragged.offsets.tolist() == [0, 1, 1, 4, 4, 5]
    assert ragged.values.tolist() == [3, 0, 5, 7, 9]
    assert ragged.lengths.tolist() == [1, 0, 3, 0, 1]


def test_contains_every_pair_and_no_other():
    # Up to 30, far beyond the largest value: such an item must not run into the next row.
    rows, items = np.arange(5)[:, None], np.arange(-2, 30)[None, :]
    found = make_rows().contains(rows, items)
    expected = [[(row, item) in PAIRS for item in items[0].tolist()] for row in range(5)]
    assert found.tolist() == expected


def test_contains_takes_pairs_and_rows_in_any_order():
    ragged = Ragged(np.array([0, 2, 3]), np.array([5, 1, 4], np.int32))
    found = ragged.contains(np.array([0, 0, 1, 1, 0]), np.array([1, 5, 4, 5, 4]))
    assert found.tolist() == [True, True, True, False, False]


@pytest.mark.parametrize("num_rows", [0, 3])
def test_without_pairs(num_rows):
    none = np.zeros(0, int)
    ragged = Ragged.from_pairs(none, none, num_rows)
    assert ragged.lengths.tolist() == [0] * num_rows
    assert ragged.contains(np.zeros(2, int), np.array([0, 4])).tolist() == [False, False]
