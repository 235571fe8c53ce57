"""Intervals against slow loops over the queries of every resample, and over all rated pairs."""

import dataclasses

import numpy as np
import pytest

from tests.evals.reports.directions import make_direction
from xmodal.evals.reports import uncertainty
from xmodal.evals.reports.metrics import (
    compute_influence,
    compute_median_rank,
)
from xmodal.evals.reports.results import CorrelationResult, Result


def draw_direction(generator, num_images, *, most=7, spread=200):
    """0 to `most` queries per image whose ranks have much in common, in no order."""
    images = np.repeat(np.arange(num_images), generator.integers(0, most + 1, num_images))
    images = generator.permutation(images)
    common = generator.exponential(spread, num_images)
    rank = (common[images] * generator.random(len(images))).astype(np.int32)
    found = make_direction(rank, images, ("recall@1", "recall@5"))
    lists = {"map@r": 100 * generator.random(len(images))}
    return dataclasses.replace(found, values=found.values | lists)


def slow_resamples(direction, images, counts):
    """Lists the queries of every resample, then applies the plain definitions."""
    at = np.searchsorted(images, direction.clusters)
    found = {name: [] for name in (*direction.values, "median_rank")}
    for weights in counts.astype(int):
        chosen = np.repeat(np.arange(len(at)), weights[at])
        for name, values in direction.values.items():
            found[name].append(np.mean(values[chosen]) if len(chosen) else np.nan)
        median = compute_median_rank(direction.rank[chosen]) if len(chosen) else np.nan
        found["median_rank"].append(median)
    return found


@pytest.mark.parametrize(("num_images", "spread"), [(1, 3), (2, 50), (77, 2), (313, 300)])
def test_equals_listing_the_queries(num_images, spread):
    generator = np.random.default_rng(num_images)
    both = {
        "i2t": draw_direction(generator, num_images, spread=spread),
        "t2i": draw_direction(generator, num_images, most=1, spread=spread),
    }
    found = uncertainty.resample(Result("b", "any", "0", both), samples=101, seed=5)
    images = np.unique(np.concatenate([each.clusters for each in both.values()]))
    counts = uncertainty.draw_resamples(len(images), 101, 5)
    for name, each in both.items():
        expected = slow_resamples(each, images, counts)
        assert set(found[name]) == set(expected)
        for metric, values in expected.items():
            np.testing.assert_allclose(
                found[name][metric], values, rtol=1e-12, atol=1e-12, err_msg=metric
            )


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
    low, high = uncertainty.compute_difference_interval(result, nothing)
    assert (high - low) / 2 == pytest.approx(2.306004 * np.sqrt(variance))  # of t with 8 degrees
    # Any order of the pairs gives the same.
    order = generator.permutation(60)
    shuffled = CorrelationResult(samples, 9, images[::-1, order], influence[order])
    found = uncertainty.compute_difference_interval(shuffled, nothing)
    assert found == pytest.approx((low, high))
