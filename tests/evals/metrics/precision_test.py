"""Precision of the top of a list: the cases of the papers."""

import numpy as np
import pytest

from xmodal.evals.metrics import precision


def places(depth, *right):
    """One list, positives at the given places, counted from 1."""
    hits = np.zeros((1, depth), bool)
    hits[0, np.array(right, int) - 1] = True
    return hits


# The synthetic lists of the human study of ECCV Caption, and their printed mAP@R.
STUDY = {
    "only the first is wrong": (range(2, 9), 66.03),
    "only the first is right": ([1], 12.5),
    "the first five are wrong": ([6, 7, 8], 10.34),
    "only the fifth is right": ([5], 2.5),
    "all are wrong": ([], 0.0),
}


@pytest.mark.parametrize("name", STUDY)
def test_map_at_r_of_the_human_study(name):
    right, expected = STUDY[name]
    (found,) = precision.compute_map_at_r(places(8, *right), np.array([8]))
    assert round(100 * found, 2) == expected


@pytest.mark.parametrize("depth", [8, 9, 50])
def test_places_behind_r_do_not_count(depth):
    hits = places(depth, 2, *range(4, depth + 1))
    mean = precision.compute_map_at_r(hits, np.array([3]))
    share = precision.compute_r_precision(hits, np.array([3]))
    np.testing.assert_allclose([mean[0], share[0]], [(1 / 2) / 3, 1 / 3], rtol=1e-15)


def test_by_hand():
    hits = np.array([[1, 0, 1, 1], [0, 1, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]], bool)
    r = np.array([4, 2, 4, 1])
    expected = [(1 + 2 / 3 + 3 / 4) / 4, (1 / 2) / 2, (1 + 1) / 4, 0]
    np.testing.assert_allclose(precision.compute_map_at_r(hits, r), expected, rtol=1e-15)
    np.testing.assert_allclose(precision.compute_r_precision(hits, r), [0.75, 0.5, 0.5, 0])


def test_a_perfect_list_that_cannot_hold_all_positives():
    """R counts a positive that is not in the gallery: neither metric reaches 1."""
    hits, r = np.ones((1, 7), bool), np.array([8])
    hits = np.pad(hits, [(0, 0), (0, 1)])  # the gallery is at its end
    np.testing.assert_allclose(precision.compute_map_at_r(hits, r), 7 / 8)
    np.testing.assert_allclose(precision.compute_r_precision(hits, r), 7 / 8)
