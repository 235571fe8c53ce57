"""Retrieval metrics worked by hand."""

import numpy as np
import pytest

from xmodal.evals import retrieval
from xmodal.evals.ranks import Ranks


def test_recall_counts_the_first_k_places():
    rank = np.array([0, 0, 4, 5, 9, 10])
    assert retrieval.compute_recall(rank, 1) == pytest.approx(100 * 2 / 6)
    assert retrieval.compute_recall(rank, 5) == pytest.approx(100 * 3 / 6)
    assert retrieval.compute_recall(rank, 10) == pytest.approx(100 * 5 / 6)


def test_recalls_by_query_average_to_the_recall():
    rank = np.array([3, 0, 10, 5, 1, 9, 4], np.int32)
    found = retrieval.compute_recall_values(rank, ("median_rank", "recall@1", "recall@10", "map@r"))
    assert {name: values.tolist() for name, values in found.items()} == {
        "recall@1": [0, 100, 0, 0, 0, 0, 0],
        "recall@10": [100, 100, 0, 100, 100, 100, 100],
    }
    for name, k in (("recall@1", 1), ("recall@10", 10)):
        assert found[name].dtype == np.float64
        assert found[name].mean() == pytest.approx(retrieval.compute_recall(rank, k))


@pytest.mark.parametrize(
    ("rank", "expected"),
    [([0], 1), ([0, 1], 1), ([0, 3, 9], 4), ([1, 2, 2, 5], 3), ([0, 0, 1, 8], 1)],
)
def test_median_rank_floors_a_half(rank, expected):
    assert retrieval.compute_median_rank(np.array(rank)) == expected


def test_queries_without_positives_are_counted_apart():
    ranks = Ranks(np.array([0, -1, 7, -1]), np.array([False, False, True, False]))
    assert retrieval.compute_retrieval(ranks, gallery_size=20) == {
        "recall@1": 50.0,
        "recall@5": 50.0,
        "recall@10": 100.0,
        "median_rank": 4.0,
        "queries": 2.0,
        "skipped_queries": 2.0,
        "tied_queries": 1.0,
        "gallery": 20.0,
    }
