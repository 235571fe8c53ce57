"""Retrieval metrics worked by hand."""

import numpy as np
import pytest

from xmodal.evals.metrics import recall


def test_recall_counts_the_first_k_places():
    rank = np.array([3, 0, 10, 5, 1, 9, 4], np.int32)
    found = recall.compute_recall_values(rank, ("recall@1", "median_rank", "recall@10", "map@r"))
    assert {name: values.tolist() for name, values in found.items()} == {
        "recall@1": [0, 100, 0, 0, 0, 0, 0],
        "recall@10": [100, 100, 0, 100, 100, 100, 100],
    }
    assert found["recall@1"].dtype == np.float64


@pytest.mark.parametrize(
    ("rank", "expected"),
    [([0], 1), ([0, 1], 1), ([0, 3, 9], 4), ([1, 2, 2, 5], 3), ([0, 0, 1, 8], 1)],
)
def test_median_rank_floors_a_half(rank, expected):
    assert recall.compute_median_rank(np.array(rank)) == expected
