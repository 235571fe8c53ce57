"""Recall, median rank, precision and correlation on examples and against slow loops."""

import math

import numpy as np
import pytest
import scipy.stats

from xmodal.apps.reproduction.entries import read_results
from xmodal.evals.labels.positives import Ragged
from xmodal.evals.reports.metrics import (
    compute_map_at_r,
    compute_r_precision,
    compute_recall_values,
    compute_spearman,
    draw_pairs,
    find_best,
    tie_breakers,
)


def test_precisions_by_hand():
    hits = np.array([[1, 0, 1, 1], [0, 1, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]], bool)
    r = np.array([4, 2, 4, 1])
    expected = [(1 + 2 / 3 + 3 / 4) / 4, (1 / 2) / 2, (1 + 1) / 4, 0]
    np.testing.assert_allclose(compute_map_at_r(hits, r), expected, rtol=1e-15)
    np.testing.assert_allclose(compute_r_precision(hits, r), [0.75, 0.5, 0.5, 0])


def test_the_lists_that_the_eccv_caption_paper_asked_people_about():
    """Of 8: only the first wrong, only it right, five wrong, only the fifth right, all wrong."""
    lists = ["01111111", "10000000", "00000111", "00001000", "00000000"]
    hits = np.array([[mark == "1" for mark in each] for each in lists])
    found = 100 * compute_map_at_r(hits, np.full(5, 8))
    (row,) = read_results().of_system("eccv_caption/list_kinds")
    printed = [value.number for value in row.published.values()]
    np.testing.assert_allclose(found, printed, rtol=0, atol=0.05)


PAIRS = 240


def ratings(seed=0):
    """Scores of 240 pairs of 90 items: human ones with five-rater ties, model ones with copies."""
    generator = np.random.default_rng(seed)
    ends = generator.integers(0, 90, (2, PAIRS))
    human = generator.integers(0, 6, (5, PAIRS)).mean(0)
    model = (human + generator.standard_normal(PAIRS)).astype(np.float32)
    model[::7] = model[0]
    queries, rows = np.unique(ends, return_inverse=True)
    pairs = Ragged.from_pairs(rows.ravel(), np.tile(np.arange(PAIRS), 2), len(queries))
    return human, model, pairs


def test_equals_scipy_on_every_sample():
    human, model, pairs = ratings()
    drawn = draw_pairs(pairs, samples=400, seed=3)
    assert drawn.shape == (400, len(pairs.lengths) // 2)
    # A pair can be drawn from each of its two ends, but not more often.
    assert max(np.bincount(row).max() for row in drawn) == 2
    expected = [scipy.stats.spearmanr(model[pair], human[pair]).statistic for pair in drawn]
    found = compute_spearman(model, human, drawn)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    assert found.std() > 0.01


def number(value, low, high, tag="b/i2t/recall@1"):
    return {tag: value, f"{tag}_low": low, f"{tag}_high": high}


@pytest.mark.parametrize(
    ("models", "best"),
    [
        # An interval is that of the best model, not of the nearest.
        ([number(50, 49, 51), number(45, 44, 49.5), number(40, 36, 45)], [True, True, False]),
        ([{"b/i2t/recall@1": 3.0}, {}, {"b/i2t/recall@1": 2.0}], [True, False, False]),
        ([{"b/i2t/recall@1": 3.0}, {"b/i2t/recall@1": math.nan}], [False, False]),
    ],
)
def test_models_not_separable_from_the_best(models, best):
    assert find_best("b/i2t/recall@1", models) == best


@pytest.mark.parametrize(
    ("tag", "others"),
    [
        ("a/b/i2t/recall@5", ["recall@10", "recall@1", "median_rank"]),
        ("eccv/i2t/map@r", []),
    ],
)
def test_ties_are_broken_by_the_other_metrics_of_a_table(tag, others):
    table = tag.rpartition("/")[0]
    assert tie_breakers(tag) == [f"{table}/{other}" for other in others]


def test_reciprocal_ranks():
    found = compute_recall_values(np.array([0, 1, 3, 9]), ("recall@1", "mrr"))
    np.testing.assert_allclose(found["mrr"], [100, 50, 25, 10])
