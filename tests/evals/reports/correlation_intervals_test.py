"""Intervals of correlations: against slow loops, and their coverage in simulated data sets."""

import dataclasses

import numpy as np
import pytest

from xmodal.evals.labels.positives import Ragged
from xmodal.evals.reports.correlation_intervals import (
    compute_difference_interval,
)
from xmodal.evals.reports.metrics import (
    compute_influence,
    compute_shares,
    draw_pairs,
)
from xmodal.evals.reports.results import CorrelationResult


def spearman_with_shares(x, y, shares):
    """By plain loops."""

    def ranks(values):
        above = [np.sum(shares * ((values < v) + 0.5 * (values == v))) for v in values]
        return np.array(above) - 0.5

    a, b = ranks(x), ranks(y)
    return np.sum(shares * a * b) / np.sqrt(np.sum(shares * a * a) * np.sum(shares * b * b))


def test_influence_is_the_derivative_by_the_share():
    generator = np.random.default_rng(3)
    x, y = generator.integers(0, 8, (2, 41)).astype(float)  # ties on both sides
    shares = generator.random(41)
    shares /= shares.sum()
    step = 1e-6
    for pair, influence in enumerate(compute_influence(x, y, shares)):
        up, down = shares * (1 - step), shares * (1 + step)
        up[pair] += step
        down[pair] -= step
        slope = (spearman_with_shares(x, y, up) - spearman_with_shares(x, y, down)) / (2 * step)
        assert influence == pytest.approx(shares[pair] * slope, abs=1e-7)


def test_shares_are_those_of_the_draws():
    queries = Ragged(np.array([0, 1, 4, 6]), np.array([0, 0, 1, 2, 2, 3]))
    drawn = draw_pairs(queries, samples=30_000, seed=0)
    shares = compute_shares(queries, 5)
    assert shares.sum() == pytest.approx(1)
    np.testing.assert_allclose(
        np.bincount(drawn.ravel(), minlength=5) / drawn.size, shares, atol=0.01
    )


def test_the_variance_is_over_pairs_that_share_an_image():
    generator = np.random.default_rng(4)
    images, influence = generator.integers(9, size=(2, 60)), generator.normal(size=60)
    influence += 0.8 * generator.normal(size=9)[images].sum(axis=0)
    samples = np.full(3, 50.0)
    result = CorrelationResult(samples, 9, images, influence)
    variance = sum(
        influence[a] * influence[b]
        for a in range(60)
        for b in range(60)
        if set(images[:, a]) & set(images[:, b])
    )
    nothing = dataclasses.replace(result, influence=np.zeros(60))
    low, high = compute_difference_interval(result, nothing)
    assert (high - low) / 2 == pytest.approx(2.306004 * np.sqrt(variance))  # of t with 8 degrees
    # Any order of the pairs gives the same.
    order = generator.permutation(60)
    shuffled = CorrelationResult(samples, 9, images[::-1, order], influence[order])
    assert compute_difference_interval(shuffled, nothing) == pytest.approx((low, high))
