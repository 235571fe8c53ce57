"""Retrieval metrics: functions of the rank of every query's best positive."""

import numpy as np

from xmodal.evals.ranks import Ranks

RECALL_AT = (1, 5, 10)


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
    metrics = {f"recall@{k}": compute_recall(rank, k) for k in RECALL_AT}
    metrics["median_rank"] = compute_median_rank(rank)
    metrics["queries"] = float(len(rank))
    metrics["skipped_queries"] = float(len(asked) - len(rank))
    metrics["tied_queries"] = float(ranks.tied.sum())
    metrics["gallery"] = float(gallery_size)
    return metrics
