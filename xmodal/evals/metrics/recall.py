"""Retrieval metrics: functions of the rank of every query's best positive."""

from collections.abc import Sequence

import numpy as np

MEDIAN_RANK = "median_rank"
_RECALL = "recall@"


def compute_recall_values(rank: np.ndarray, metrics: Sequence[str]) -> dict[str, np.ndarray]:
    """Returns the share of every query in the recalls among `metrics`.

    Args:
      rank: int32 [Q], 0-based ranks.
      metrics: names; those other than `recall@k` are passed over.

    Returns:
      `recall@k` -> float64 [Q], 100 where the best positive is among the first k, else 0.
    """
    return {
        name: np.where(rank < int(name.removeprefix(_RECALL)), 100.0, 0.0)
        for name in metrics
        if name.startswith(_RECALL)
    }


def compute_median_rank(rank: np.ndarray) -> float:
    """Median 1-based rank, a half-way median rounded down (the convention of VSE++).

    Args:
      rank: int [Q], 0-based ranks.
    """
    return float(np.floor(np.median(rank)) + 1)
