"""Metrics of a random order of the gallery, as of a model without any knowledge."""

from typing import Any

import numpy as np

from xmodal.evals.labels.positives import Ragged, Relation
from xmodal.evals.labels.types import DirectionLabels
from xmodal.evals.reports import metrics
from xmodal.evals.scores.ranks import compute_r, find_cutoff, has_positives, ideal_dcg


def compute_chance(labels: DirectionLabels, sizes: np.ndarray) -> dict[str, float]:
    """Returns the expected value of every metric of a direction, by name.

    Recalls and precisions are exact expectations over all orders, in percent; the median rank is
    the median over the orders and queries, rounded down like that of a model.

    Args:
      labels: positives of the direction.
      sizes: int, items that every query with a positive ranks.
    """
    rows = np.flatnonzero(has_positives(labels))
    if not len(rows):
        return dict.fromkeys(labels.metrics, float("nan"))
    found: dict[str, list[float]] = {metric: [] for metric in labels.metrics}
    for relation in labels.relations:
        positives = _count_reachable(labels, relation)[rows]
        depths = compute_r(labels, relation)[rows]
        facts = np.stack([sizes, positives, depths])
        facts, counts = np.unique(facts, axis=1, return_counts=True)
        for metric, values in found.items():
            if cutoff := find_cutoff(metric):
                values.append(_expect_ndcg(labels, sizes, rows, cutoff))
            else:
                values.append(_expect(metric, facts, counts / len(rows)))
    return {metric: float(np.mean(values)) for metric, values in found.items()}


def _expect(metric: str, facts: np.ndarray, shares: np.ndarray) -> float:
    """Expectation over queries with G items, P of them positive, and R of lists.

    Args:
      metric: its name.
      facts: int [3, U], different G, P and R.
      shares: float [U], shares of the queries that have them.
    """
    sizes, positives, depths = facts
    if metric == metrics.MEDIAN_RANK:
        cases = zip(sizes, positives, shares, strict=True)
        reached = sum(share * (1 - _survive(size, own, sizes.max())) for size, own, share in cases)
        at = np.flatnonzero(reached >= 0.5 * (1 - 1e-12))
        return float(at[0] + 1 if len(at) else sizes.max() + 1)
    if metric == metrics.RECIPROCAL_RANK:
        values = [
            -np.diff(_survive(size, positive, size), prepend=1.0) @ (1 / np.arange(1, size + 1))
            for size, positive in zip(sizes, positives, strict=True)
        ]
    elif metric.startswith(metrics.RECALL):
        depth = int(metric.removeprefix(metrics.RECALL))
        values = 1 - _survive(sizes, positives, depth)[-1]
    elif metric == metrics.MAP:
        values = _expect_precisions(sizes, positives, sizes) / depths
    elif metric == "map@r":
        values = _expect_precisions(sizes, positives, np.minimum(depths, sizes)) / depths
    else:  # Each of the first R items is a positive with probability P / G.
        values = np.minimum(depths, sizes) * positives / sizes / np.maximum(depths, 1)
    return 100.0 * float(np.dot(values, shares))


def _expect_precisions(sizes: np.ndarray, positives: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Expected sum of the precisions at the positives among the first items, float64 [Q].

    An item is positive with probability P / G; each of the k - 1 items above it then is with
    probability (P - 1) / (G - 1), so the precision is (1 + (k - 1) (P - 1) / (G - 1)) / k.
    """
    harmonic = np.cumsum(1 / np.arange(1, seen.max() + 1))[np.maximum(seen, 1) - 1]
    others = (positives - 1) / np.maximum(sizes - 1, 1)
    return positives / sizes * (harmonic + (seen - harmonic) * others)


def _expect_ndcg(
    labels: DirectionLabels, sizes: np.ndarray, rows: np.ndarray, cutoff: int
) -> float:
    """Expectation over queries `rows`: each of the first items has the mean grade of all."""
    positives: Any = labels.positives
    gains = np.diff(np.append(0.0, np.cumsum(labels.grades))[positives.offsets])[rows]
    discounts = np.cumsum(metrics.compute_discounts(cutoff))[np.minimum(cutoff, sizes) - 1]
    return 100.0 * float(np.mean(gains / sizes * discounts / ideal_dcg(labels, cutoff)[rows]))


def _survive(size: np.ndarray, positives: np.ndarray, depth: int) -> np.ndarray:
    """Probability that none of the first 1 to `depth` items is a positive, [depth, ...]."""
    ahead = np.arange(depth).reshape(-1, *[1] * np.ndim(size))
    left = np.maximum(size - ahead, 1)
    return np.cumprod(np.clip((size - positives - ahead) / left, 0, 1), axis=0)


def _count_reachable(labels: DirectionLabels, relation: Ragged | Relation) -> np.ndarray:
    """Positives among the items that a query ranks, int64 [Q]."""
    if labels.folds is None or isinstance(relation, Relation):
        return relation.lengths  # Related groups are of one fold.
    queries, items = labels.folds
    rows = np.repeat(np.arange(len(relation.lengths)), relation.lengths)
    met = queries[rows] == items[relation.values]
    return np.bincount(rows[met], minlength=len(relation.lengths))
