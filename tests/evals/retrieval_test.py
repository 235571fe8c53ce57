"""Retrieval metrics worked by hand."""

import numpy as np
import pytest

from xmodal.evals import retrieval
from xmodal.evals.results import TaskResult


def test_recall_counts_the_first_k_places():
    rank = np.array([3, 0, 10, 5, 1, 9, 4], np.int32)
    found = retrieval.compute_recall_values(rank, ("recall@1", "median_rank", "recall@10", "map@r"))
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
    assert retrieval.compute_median_rank(np.array(rank)) == expected


@pytest.mark.parametrize(
    ("rank", "metric", "expected"),
    [([4], "recall@1", True), (None, "recall@1", False), ([4], "map@r", False)],
)
def test_median_ranks_stand_beside_recalls(rank, metric, expected):
    task = TaskResult(
        query_ids=np.array([7]),
        clusters=np.array([0], np.int32),
        values={metric: np.array([0.0])},
        rank=None if rank is None else np.array(rank, np.int32),
        tied=np.array([False]),
        gallery=9,
        skipped=0,
    )
    assert retrieval.has_median_rank(task) == expected
