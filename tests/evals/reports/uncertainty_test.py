"""Intervals against a slow loop that lists the queries of every resample."""

import numpy as np
import pytest

from xmodal.evals.reports import uncertainty
from xmodal.evals.reports.metrics import compute_median_rank, compute_recall_values
from xmodal.evals.reports.results import BenchmarkResult, DirectionResult


def make_direction(generator, num_images, *, most=7, spread=200, metrics=("recall@1", "recall@5")):
    """0 to `most` queries per image whose ranks have much in common, in no order."""
    images = np.repeat(np.arange(num_images), generator.integers(0, most + 1, num_images))
    images = generator.permutation(images).astype(np.int32)
    common = generator.exponential(spread, num_images)
    rank = (common[images] * generator.random(len(images))).astype(np.int32)
    values = compute_recall_values(rank, metrics)
    values["map@r"] = 100 * generator.random(len(images))
    return DirectionResult(
        query_ids=np.arange(len(images)),
        clusters=images,
        values=values,
        rank=rank,
        tied=np.zeros(len(images), bool),
        gallery=1000,
        skipped=0,
        has_median=rank is not None,
    )


def make_benchmark(**directions):
    return BenchmarkResult("b", "any", "0", directions, {})


def slow_resamples(direction, images, resamples):
    """Lists the queries of every resample, then applies the plain definitions."""
    at = np.searchsorted(images, direction.clusters)
    means, medians = [], []
    for weights in resamples.counts.astype(int):
        chosen = np.repeat(np.arange(len(at)), weights[at])
        if len(chosen) == 0:
            means.append({name: np.nan for name in direction.values})
            medians.append(np.nan)
            continue
        means.append({name: np.mean(values[chosen]) for name, values in direction.values.items()})
        medians.append(compute_median_rank(direction.rank[chosen]))
    found = {name: np.array([row[name] for row in means]) for name in direction.values}
    return found | {"median_rank": np.array(medians)}


@pytest.mark.parametrize(("num_images", "spread"), [(1, 3), (2, 50), (77, 2), (313, 300)])
def test_equals_listing_the_queries(num_images, spread):
    generator = np.random.default_rng(num_images)
    direction = make_direction(generator, num_images, spread=spread)
    other = make_direction(generator, num_images, most=1, spread=spread)
    found = uncertainty.Bootstrap(samples=101, seed=5).resample(
        make_benchmark(i2t=direction, t2i=other)
    )
    images = np.unique(np.concatenate([direction.clusters, other.clusters]))
    resamples = uncertainty.Resamples(len(images), samples=101, seed=5)
    for name, one in (("i2t", direction), ("t2i", other)):
        expected = slow_resamples(one, images, resamples)
        assert set(expected) == {"recall@1", "recall@5", "map@r", "median_rank"}
        for metric, values in expected.items():
            np.testing.assert_allclose(
                found[f"b/{name}/{metric}"], values, rtol=1e-12, atol=1e-12, err_msg=metric
            )


def test_resamples_are_multinomial():
    counts = uncertainty.Resamples(50, samples=2000, seed=1).counts
    assert counts.shape == (2000, 50)
    assert (counts.sum(1) == 50).all()
    assert counts.mean() == 1
    # An image is missing from a resample with probability (1 - 1/50)^50.
    assert (counts == 0).mean() == pytest.approx((1 - 1 / 50) ** 50, abs=0.01)
    assert counts.var() == pytest.approx(1 - 1 / 50, abs=0.02)
