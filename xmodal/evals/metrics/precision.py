"""Precision metrics of ECCV Caption and PMRP: how much of the top of a list is positive."""

import numpy as np


def compute_map_at_r(hits: np.ndarray, r: np.ndarray) -> np.ndarray:
    """mAP@R of every query: sum over the hits among the first R of precision there, over R.

    Musgrave et al. 2020, as the eccv_caption library computes it: the sum is divided by R, not by
    the number of hits.

    Args:
      hits: bool [Q, depth], whether the item at each place of the list is a positive; depth is at
        least the largest R.
      r: int [Q], number of positives of every query, not 0.

    Returns:
      float64 [Q] in 0..1.
    """
    place = np.arange(1, hits.shape[1] + 1)
    precision = np.cumsum(hits, axis=1) / place
    counts = hits & (place <= r[:, None])
    return np.sum(precision * counts, axis=1) / r


def compute_r_precision(hits: np.ndarray, r: np.ndarray) -> np.ndarray:
    """R-Precision of every query: the share of positives among the first R.

    Args:
      hits: as in `compute_map_at_r`.
      r: int [Q], not 0.

    Returns:
      float64 [Q] in 0..1.
    """
    place = np.arange(1, hits.shape[1] + 1)
    return np.sum(hits & (place <= r[:, None]), axis=1) / r


def compute_average_precision(scores: np.ndarray, positive: np.ndarray) -> float:
    """Average precision: the mean over positives of the precision at their place, in 0..1.

    Items are ranked by falling score; of equal scores the earlier comes first (as torchnet's
    `APMeter`).

    Args:
      scores: float [N].
      positive: bool [N].

    Returns:
      The average precision, NaN without a positive.
    """
    hits = positive[np.argsort(-scores, kind="stable")]
    if not hits.any():
        return float("nan")
    precision = np.cumsum(hits) / np.arange(1, len(hits) + 1)
    return float(precision[hits].mean())
