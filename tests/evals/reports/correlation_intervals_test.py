"""Intervals of correlations: against slow loops, and their coverage in simulated data sets."""

import dataclasses

import numpy as np
import pytest

from xmodal.evals.labels.positives import Ragged
from xmodal.evals.reports.correlation_intervals import (
    compute_correlation_interval,
    compute_difference_interval,
)
from xmodal.evals.reports.metrics import (
    compute_influence,
    compute_pearson_influence,
    compute_shares,
    compute_spearman,
    draw_pairs,
)
from xmodal.evals.reports.paired_differences import compare
from xmodal.evals.reports.results import BoardResult, CorrelationResult
from xmodal.evals.reports.store import StoredResults
from xmodal.evals.reports.uncertainty import compute_interval

IMAGES = 150
CAPTIONS = 3 * IMAGES
PAIRS = 1200
DATA_SETS = 300
# Share of the noise by pair, by caption and by image.
NOISE = {"pairs": (1.0, 0.0, 0.0), "captions": (0.3, 0.7, 0.0), "images": (0.3, 0.0, 0.7)}


class Design:
    """Rated pairs of captions, some of one image; every end is a query."""

    def __init__(self):
        generator = np.random.default_rng(0)
        self.ends = generator.integers(CAPTIONS, size=(2, PAIRS))
        self.ends[1, ::4] = self.ends[0, ::4] // 3 * 3 + generator.integers(3, size=PAIRS // 4)
        self.images = self.ends // 3
        rows = np.unique(self.ends, return_inverse=True)[1].ravel()
        self.queries = Ragged.from_pairs(rows, np.tile(np.arange(PAIRS), 2), rows.max() + 1)
        self.shares = compute_shares(self.queries, PAIRS)
        self.drawn = draw_pairs(self.queries, samples=40, seed=0)

    def noise(self, generator, parts):
        """Standard normal values of every pair."""
        by_pair, by_caption, by_image = np.sqrt(parts)
        values = by_pair * generator.normal(size=PAIRS)
        for scale, number, ends in (
            (by_caption, CAPTIONS, self.ends),
            (by_image, IMAGES, self.images),
        ):
            own = generator.normal(size=number)
            once = np.where(ends[0] == ends[1], 2, np.sqrt(2))
            values += scale * (own[ends[0]] + own[ends[1]]) / once
        return values

    def correlate(self, model, human):
        return CorrelationResult(
            100 * compute_spearman(model, human, self.drawn),
            self.drawn.shape[1],
            self.images,
            100 * compute_influence(model, human, self.shares),
        )


@pytest.fixture(scope="module")
def design():
    return Design()


def bootstrap_queries(design, result):
    """The normal interval of a bootstrap of queries with all their pairs, to first order."""
    queries = design.queries
    own = (result.influence / design.shares)[queries.values]
    means = np.add.reduceat(own, queries.offsets[:-1]) / queries.lengths
    half = 1.96 * np.sqrt(np.sum(means**2)) / len(means)
    return result.samples.mean() - half, result.samples.mean() + half


@pytest.mark.parametrize("kind", NOISE)
def test_intervals_cover_the_truth(design, kind):
    """Of samples of the protocol they cover too often, of resampled queries too rarely."""
    generator = np.random.default_rng(1)
    truth = 100 * 6 / np.pi * np.arcsin(0.7 / 2)  # Spearman of normal variables
    covered = np.zeros((DATA_SETS, 3))
    for found in covered:
        human = design.noise(generator, NOISE[kind])
        model = 0.7 * human + np.sqrt(1 - 0.7**2) * design.noise(generator, NOISE[kind])
        result = design.correlate(model, human)
        intervals = (
            compute_correlation_interval(result),
            compute_interval(result.samples),
            bootstrap_queries(design, result),
        )
        found[:] = [low <= truth <= high for low, high in intervals]
    ours, samples, queries = covered.mean(axis=0)
    assert 0.9 <= ours <= 0.98  # a binomial deviation is 0.013
    assert queries < 0.88
    if kind == "pairs":
        assert samples > 0.98


@pytest.mark.slow
def test_equal_models_look_separable_in_a_twentieth_of_the_comparisons(design):
    """And models that differ look so far more often than by the samples of the protocol."""
    generator = np.random.default_rng(2)
    yes = np.zeros((DATA_SETS, 3))
    for found in yes:
        human = design.noise(generator, NOISE["pairs"])
        ours, equal, worse = (
            design.correlate(human + scale * design.noise(generator, NOISE["captions"]), human)
            for scale in (1.0, 1.0, 1.12)
        )
        pairs = [(ours, equal), (ours, worse)]
        intervals = [compute_difference_interval(*pair) for pair in pairs]
        intervals.append(compute_interval(ours.samples - worse.samples))
        found[:] = [low > 0 or high < 0 for low, high in intervals]
    equal, worse, by_samples = yes.mean(axis=0)
    assert 0.02 <= equal <= 0.08
    assert worse > by_samples + 0.3


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


@pytest.mark.parametrize("values", [[1.0, np.nan, 3.0, 2.0], [1.0, 1.0, 1.0, 1.0]])
def test_influence_is_undefined_without_a_correlation(values):
    other, values = np.arange(4.0), np.array(values)
    for x, y in ((values, other), (other, values)):
        assert np.isnan(compute_influence(x, y, np.full(4, 0.25))).all()
        assert np.isnan(compute_pearson_influence(x, y)).all()


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


def test_models_with_other_draws_can_be_compared(design):
    generator = np.random.default_rng(5)
    human = design.noise(generator, NOISE["pairs"])
    models = [human + noise * generator.normal(size=PAIRS) for noise in (0.5, 1.0)]
    ours, theirs = (design.correlate(model, human) for model in models)
    drawn = draw_pairs(design.queries, samples=3, seed=8)
    other = dataclasses.replace(theirs, samples=100 * compute_spearman(models[1], human, drawn))
    found = [
        compare(
            *(
                StoredResults([BoardResult("b", "any", "0", {}, {"sts": each})], "m")
                for each in pair
            )
        )
        for pair in ((ours, theirs), (ours, other))
    ]
    same, differs = (each["b/sts/spearman"] for each in found)
    assert same.separable
    assert differs.separable
    assert differs.high - differs.low > same.high - same.low
    assert differs.difference == pytest.approx(same.difference, abs=5)


def test_nothing_varies_and_nothing_is_defined(design):
    human = np.arange(PAIRS, dtype=float)
    assert compute_correlation_interval(design.correlate(human, human)) == pytest.approx((100, 100))
    constant = design.correlate(np.ones(PAIRS), human)
    assert np.isnan(constant.influence).all()
    assert np.isnan(compute_correlation_interval(constant)).all()
