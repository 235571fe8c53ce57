"""Metrics of a random order of the gallery, as of a model without any knowledge."""

import numpy as np

from xmodal.evals.labels.positives import Ragged, Relation
from xmodal.evals.labels.types import DirectionLabels
from xmodal.evals.reports.metrics import MEDIAN_RANK, RECALL, RECIPROCAL_RANK
from xmodal.evals.scores.ranks import compute_r, has_positives


def compute_chance(labels: DirectionLabels, items: int, *, exclude_self: bool) -> dict[str, float]:
    """Returns the expected value of every metric of a direction, by name.

    Recalls and precisions are exact expectations over all orders, in percent; the median rank is
    the median over the orders and queries, rounded down like that of a model.

    Args:
      labels: positives of the direction.
      items: number of items in the gallery.
      exclude_self: whether a query is itself an item, which it does not rank.
    """
    rows = np.flatnonzero(has_positives(labels))
    if not len(rows):
        return dict.fromkeys(labels.metrics, float("nan"))
    sizes = np.full(len(rows), items)
    if labels.folds is not None:
        sizes = np.bincount(labels.folds[1])[labels.folds[0][rows]]
    sizes = sizes - exclude_self
    found: dict[str, list[float]] = {metric: [] for metric in labels.metrics}
    for relation in labels.relations:
        positives = _count_reachable(labels, relation)[rows]
        depths = compute_r(labels, relation)[rows]
        for metric, values in found.items():
            values.append(_expect(metric, sizes, positives, depths))
    return {metric: float(np.mean(values)) for metric, values in found.items()}


def _expect(metric: str, sizes: np.ndarray, positives: np.ndarray, depths: np.ndarray) -> float:
    """Expectation over queries with P of G items positive [Q], and R of lists [Q]."""
    if metric == MEDIAN_RANK:
        return _find_median(sizes, positives)
    if metric.startswith(RECALL):
        missed = _survive(sizes, positives, int(metric.removeprefix(RECALL)))[-1]
        return 100.0 * float(np.mean(1 - missed))
    if metric == RECIPROCAL_RANK:
        return 100.0 * _expect_reciprocal_rank(sizes, positives)
    seen = np.minimum(depths, sizes)
    if metric == "map@r":
        return 100.0 * float(np.mean(_expect_precisions(sizes, positives, seen) / depths))
    # Each of the first R items is a positive with probability P / G.
    return 100.0 * float(np.mean(seen * positives / sizes / np.maximum(depths, 1)))


def _expect_precisions(sizes: np.ndarray, positives: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Expected sum of the precisions at the positives among the first items, float64 [Q].

    An item is positive with probability P / G; each of the k - 1 items above it then is with
    probability (P - 1) / (G - 1), so the precision is (1 + (k - 1) (P - 1) / (G - 1)) / k.
    """
    harmonic = np.cumsum(1 / np.arange(1, seen.max() + 1))[np.maximum(seen, 1) - 1]
    others = (positives - 1) / np.maximum(sizes - 1, 1)
    return positives / sizes * (harmonic + (seen - harmonic) * others)


def _survive(sizes: np.ndarray, positives: np.ndarray, depth: int) -> np.ndarray:
    """Probability that none of the first 1 to `depth` items is a positive, float64 [depth, Q]."""
    ahead = np.arange(depth)[:, None]
    left = np.maximum(sizes - ahead, 1)
    return np.cumprod(np.clip((sizes - positives - ahead) / left, 0, 1), axis=0)


def _expect_reciprocal_rank(sizes: np.ndarray, positives: np.ndarray) -> float:
    """Sum over ranks of the probability that the best positive has this rank, over the rank."""
    pairs, counts = np.unique(np.stack([sizes, positives]), axis=1, return_counts=True)
    total = 0.0
    for (size, positive), count in zip(pairs.T, counts, strict=True):
        missed = _survive(size[None], positive[None], int(size))[:, 0]
        total += count * float(np.sum(-np.diff(missed, prepend=1.0) / np.arange(1, size + 1)))
    return total / len(sizes)


def _find_median(sizes: np.ndarray, positives: np.ndarray) -> float:
    """The first rank, from 1, that half of the best positives reach."""
    pairs, counts = np.unique(np.stack([sizes, positives]), axis=1, return_counts=True)
    share = np.zeros(int(sizes.max()))
    for (size, positive), count in zip(pairs.T, counts, strict=True):
        share += count * (1 - _survive(size[None], positive[None], len(share))[:, 0])
    reached = np.flatnonzero(share >= len(sizes) / 2 * (1 - 1e-12))
    return float(reached[0] + 1 if len(reached) else sizes.max() + 1)


def _count_reachable(labels: DirectionLabels, relation: Ragged | Relation) -> np.ndarray:
    """Positives among the items that a query ranks, int64 [Q]."""
    if labels.folds is None or isinstance(relation, Relation):
        return relation.lengths  # Related groups are of one fold.
    queries, items = labels.folds
    rows = np.repeat(np.arange(len(relation.lengths)), relation.lengths)
    met = queries[rows] == items[relation.values]
    return np.bincount(rows[met], minlength=len(relation.lengths))
