"""Metrics of a random order, against means over all orders."""

import itertools

import numpy as np
import pytest

from xmodal.evals.labels.positives import Ragged
from xmodal.evals.labels.types import DirectionLabels
from xmodal.evals.reports.chance import compute_chance

ITEMS = 5
METRICS = ("recall@1", "recall@5", "mrr", "map", "map@r", "r_precision")
# Query 3 has no positive.
POSITIVES = Ragged.from_pairs(
    np.array([0, 1, 1, 2, 2, 2, 4]), np.array([2, 0, 4, 1, 3, 4, 4]), num_rows=5
)


def values_of(order, positives, r):
    """The metrics of one query, by their definitions."""
    hits = [item in positives for item in order]
    every = [sum(hits[: k + 1]) / (k + 1) for k in range(len(hits)) if hits[k]]
    at_hits = [sum(hits[: k + 1]) / (k + 1) for k in range(min(r, len(hits))) if hits[k]]
    return {
        "recall@1": any(hits[:1]),
        "recall@5": any(hits[:5]),
        "mrr": 1 / (hits.index(True) + 1) if any(hits) else 0,
        "map": sum(every) / r,
        "map@r": sum(at_hits) / r,
        "r_precision": sum(hits[:r]) / r,
    }


def mean_over_orders(galleries, positives, depths):
    """The mean over queries of the mean over all orders of their galleries, in percent."""
    per_query = []
    for gallery, own, r in zip(galleries, positives, depths, strict=True):
        orders = [values_of(order, own, r) for order in itertools.permutations(gallery)]
        per_query.append({name: np.mean([each[name] for each in orders]) for name in METRICS})
    return {name: 100 * np.mean([each[name] for each in per_query]) for name in METRICS}


def rows_of(ragged):
    return [set(part) for part in np.split(ragged.values, ragged.offsets[1:-1])]


def test_expectations_are_means_over_all_orders():
    asked, positives = [0, 1, 2, 4], rows_of(POSITIVES)
    labels = DirectionLabels(POSITIVES, METRICS, cap=2)
    expected = mean_over_orders(
        [range(ITEMS)] * 4,
        [positives[row] for row in asked],
        [min(len(positives[row]), 2) for row in asked],
    )
    assert compute_chance(labels, np.full(4, ITEMS)) == pytest.approx(expected)


def test_positives_outside_the_gallery_and_folds():
    unreachable = np.array([1, 0, 2, 0, 0], np.int32)
    labels = DirectionLabels(POSITIVES, METRICS, unreachable)
    positives, asked = rows_of(POSITIVES), [0, 1, 2, 4]
    depths = [len(positives[row]) + int(unreachable[row]) for row in asked]
    expected = mean_over_orders([range(ITEMS)] * 4, [positives[row] for row in asked], depths)
    assert compute_chance(labels, np.full(4, ITEMS)) == pytest.approx(expected)

    folds = np.array([0, 0, 1, 0, 1]), np.array([0, 0, 0, 1, 1])
    labels = DirectionLabels(POSITIVES, METRICS[:3], folds=folds)
    galleries = [np.flatnonzero(folds[1] == folds[0][row]) for row in asked]
    expected = mean_over_orders(galleries, [positives[row] for row in asked], [1] * 4)
    found = compute_chance(labels, np.array([len(each) for each in galleries]))
    assert found == pytest.approx({name: expected[name] for name in METRICS[:3]})


def test_graded_judgments():
    grades, discounts = np.array([3.0, 1, 2, 1, 1, 3, 2]), 1 / np.log2([2, 3, 4])
    labels = DirectionLabels(POSITIVES, ("ndcg@3",), grades=grades)
    shares = []
    for row in (0, 1, 2, 4):
        own = slice(*POSITIVES.offsets[row : row + 2])
        gains = np.zeros(ITEMS)
        gains[POSITIVES.values[own]] = grades[own]
        ideal = np.sort(gains)[::-1][:3] @ discounts
        orders = itertools.permutations(gains)
        shares.append(np.mean([np.dot(order[:3], discounts) / ideal for order in orders]))
    expected = {"ndcg@3": 100 * np.mean(shares)}
    assert compute_chance(labels, np.full(4, ITEMS)) == pytest.approx(expected)
