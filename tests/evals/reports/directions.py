"""Directions of made-up ranks."""

import numpy as np

from xmodal.evals.reports.metrics import compute_recall_values
from xmodal.evals.reports.results import DirectionResult


def make_direction(rank, clusters, metrics=("recall@1", "recall@10"), **fields):
    """The results of queries with these ranks, of the images `clusters`."""
    rank = np.asarray(rank, np.int32)
    values = compute_recall_values(rank, metrics)
    given = {"gallery": 20, "skipped": 0, "tied": np.arange(len(rank)) == 1, "has_median": True}
    ids, clusters = 10 * np.arange(len(rank)) + 7, np.asarray(clusters, np.int32)
    return DirectionResult(ids, clusters, values, rank=rank, **(given | fields))
