"""Retrieval metrics: functions of the rank of every query's best positive."""

from collections.abc import Sequence

import numpy as np

from xmodal.evals.ranks import Ranks
from xmodal.evals.results import TaskResult

RECALL_AT = (1, 5, 10)
MEDIAN_RANK = "median_rank"
_RECALL = "recall@"


def compute_recall_values(rank: np.ndarray, metrics: Sequence[str]) -> dict[str, np.ndarray]:
    """What every query adds to the recalls among `metrics`.

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


def compute_recall(rank: np.ndarray, k: int) -> float:
    """Percentage of queries whose best positive is among the first `k`.

    Args:
      rank: int [Q], 0-based ranks.
      k: length of the list that is looked at.
    """
    return 100.0 * float(np.mean(rank < k))


def compute_median_rank(rank: np.ndarray) -> float:
    """Median 1-based rank, a half-way median rounded down (the convention of VSE++).

    Args:
      rank: int [Q], 0-based ranks.
    """
    return float(np.floor(np.median(rank)) + 1)


def has_median_rank(task: TaskResult) -> bool:
    """Whether the median rank of a task is reported: wherever ranks are known and recalls asked."""
    return task.rank is not None and any(name.startswith(_RECALL) for name in task.values)


def compute_retrieval(ranks: Ranks, gallery_size: int) -> dict[str, float]:
    """All retrieval metrics of one task.

    Args:
      ranks: of Q queries; those without a positive (rank -1) are left out and counted.
      gallery_size: items a query is ranked among, itself excluded.

    Returns:
      `recall@1`, `recall@5`, `recall@10` (percent), `median_rank`, and the counts `queries`,
      `skipped_queries`, `tied_queries` and `gallery`.
    """
    asked = ranks.rank >= 0
    rank = ranks.rank[asked]
    metrics = {f"{_RECALL}{k}": compute_recall(rank, k) for k in RECALL_AT}
    metrics[MEDIAN_RANK] = compute_median_rank(rank)
    metrics["queries"] = float(len(rank))
    metrics["skipped_queries"] = float(len(asked) - len(rank))
    metrics["tied_queries"] = float(ranks.tied.sum())
    metrics["gallery"] = float(gallery_size)
    return metrics
