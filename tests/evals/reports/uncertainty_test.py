"""Intervals against a slow loop that lists the queries of every resample."""

import numpy as np
import pytest

from xmodal.evals.reports import uncertainty
from xmodal.evals.reports.metrics import compute_median_rank, compute_recall_values
from xmodal.evals.reports.results import BoardResult, DirectionResult


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


def make_plain_direction(values, rank, images):
    return DirectionResult(
        query_ids=np.arange(len(images)),
        clusters=images.astype(np.int32),
        values={"recall@1": values},
        rank=rank,
        tied=np.zeros(len(images), bool),
        gallery=1000,
        skipped=0,
        has_median=rank is not None,
    )


def make_board(**directions):
    return BoardResult("b", "any", "0", directions, {})


def slow_resamples(direction, images, resamples):
    """Lists the queries of every resample, then applies the plain definitions."""
    at = np.searchsorted(images, direction.clusters)
    means, medians = [], []
    for weights in resamples.counts.T:
        chosen = np.repeat(np.arange(len(at)), weights[at])
        if len(chosen) == 0:
            means.append({name: np.nan for name in direction.values})
            medians.append(np.nan)
            continue
        means.append({name: np.mean(values[chosen]) for name, values in direction.values.items()})
        medians.append(compute_median_rank(direction.rank[chosen]))
    found = {name: np.array([row[name] for row in means]) for name in direction.values}
    return found | {"median_rank": np.array(medians)}


@pytest.mark.parametrize("deviations", [0.0, 1.0, 5.0])
@pytest.mark.parametrize(("num_images", "spread"), [(1, 3), (2, 50), (77, 2), (313, 300)])
def test_equals_listing_the_queries(monkeypatch, num_images, spread, deviations):
    """Also where the window of the median is too narrow for most resamples."""
    monkeypatch.setattr(uncertainty, "_WINDOW_DEVIATIONS", deviations)
    monkeypatch.setattr(uncertainty, "_SAMPLES_PER_CHUNK", 13)
    generator = np.random.default_rng(num_images)
    direction = make_direction(generator, num_images, spread=spread)
    other = make_direction(generator, num_images, most=1, spread=spread)
    found = uncertainty.Bootstrap(samples=101, seed=5).resample(
        make_board(i2t=direction, t2i=other)
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


def test_the_window_of_the_median_holds_all_resamples(monkeypatch):
    """At real shapes the slow way is not taken."""
    generator = np.random.default_rng(0)
    images = np.repeat(np.arange(1000), 5)
    rank = (generator.exponential(40, 1000)[images] * generator.random(5000)).astype(np.int32)
    direction = make_plain_direction(100.0 * (rank < 1), rank, images)
    rows = []
    find = uncertainty._find_medians

    def spy(rank, *rest):
        rows.append(len(rank))
        return find(rank, *rest)

    monkeypatch.setattr(uncertainty, "_find_medians", spy)
    uncertainty.Bootstrap(samples=300).resample(make_board(i2t=direction))
    assert len(rows) == 1
    assert rows[0] < 1500


def test_resamples_are_multinomial():
    counts = uncertainty.Resamples(50, samples=2000, seed=1).counts
    assert counts.shape == (50, 2000)
    assert (counts.sum(0, dtype=int) == 50).all()
    assert counts.mean() == 1
    # An image is missing from a resample with probability (1 - 1/50)^50.
    assert (counts == 0).mean() == pytest.approx((1 - 1 / 50) ** 50, abs=0.01)
    assert counts.var() == pytest.approx(1 - 1 / 50, abs=0.02)


def test_seed_decides_and_equal_sizes_share_resamples():
    direction = make_direction(np.random.default_rng(0), 60)
    board = make_board(i2t=direction)
    bootstrap = uncertainty.Bootstrap(samples=20, seed=3)
    first, second = bootstrap.resample(board), bootstrap.resample(board)
    again = uncertainty.Bootstrap(samples=20, seed=3).resample(board)
    other = uncertainty.Bootstrap(samples=20, seed=4).resample(board)
    for tag, values in first.items():
        np.testing.assert_array_equal(values, second[tag])
        np.testing.assert_array_equal(values, again[tag])
    assert (first["b/i2t/map@r"] != other["b/i2t/map@r"]).any()


def test_boards_that_need_no_resample():
    assert uncertainty.Bootstrap(samples=5).resample(make_board()) == {}
    empty = make_direction(np.random.default_rng(0), 4, most=0)
    found = uncertainty.Bootstrap(samples=5).resample(make_board(i2t=empty))
    assert set(found) == {f"b/i2t/{m}" for m in ("recall@1", "recall@5", "map@r", "median_rank")}
    assert all(np.isnan(values).all() for values in found.values())


def width(values, images, samples=400):
    board = make_board(i2t=make_plain_direction(values, None, images))
    drawn = uncertainty.Bootstrap(samples=samples).resample(board)
    low, high = uncertainty.compute_interval(drawn["b/i2t/recall@1"])
    return high - low


def test_repeating_captions_does_not_shrink_the_interval():
    generator = np.random.default_rng(2)
    values, images = 100.0 * (generator.random(300) < 0.4), np.arange(300)
    alone = width(values, images)
    copies = width(np.repeat(values, 5), np.repeat(images, 5))
    assert copies == pytest.approx(alone, rel=1e-9)
    # As if they were queries of their own, the five copies would promise 1/sqrt(5) of it.
    assert width(np.repeat(values, 5), np.arange(1500)) < 0.6 * alone


@pytest.mark.parametrize("correlated", [False, True])
def test_intervals_cover_the_truth(correlated):
    """300 data sets of 80 images with three captions each; their intervals hold the true value."""
    generator = np.random.default_rng(int(correlated))
    images = np.repeat(np.arange(80), 3)
    bootstrap = uncertainty.Bootstrap(samples=400, seed=9)
    truth = {"b/i2t/recall@1": 30.8538, "b/i2t/median_rank": 21}
    covered = dict.fromkeys(truth, 0)
    for _ in range(300):
        noise = generator.standard_normal(len(images))
        if correlated:  # three quarters of the variance belong to the image
            noise = 0.5 * noise + np.sqrt(0.75) * generator.standard_normal(80)[images]
        values = 100.0 * (noise > 0.5)
        rank = np.floor(np.exp(3 + noise)).astype(np.int32)  # half of them below 20, 21 from 1
        drawn = bootstrap.resample(make_board(i2t=make_plain_direction(values, rank, images)))
        for tag, samples in drawn.items():
            low, high = uncertainty.compute_interval(samples)
            covered[tag] += low <= truth[tag] <= high
    # 285 expected; a binomial deviation is 3.8, and percentile intervals are a little short.
    assert 267 <= covered["b/i2t/recall@1"] <= 298
    assert 267 <= covered["b/i2t/median_rank"] <= 300


def test_interval_is_the_middle_of_the_defined_samples():
    samples = np.random.default_rng(0).permutation(np.arange(1000.0))
    assert uncertainty.compute_interval(samples) == (24.0, 975.0)
    with_gaps = np.concatenate([samples, [np.nan] * 500])
    assert uncertainty.compute_interval(with_gaps) == (24.0, 975.0)
    assert np.isnan(uncertainty.compute_interval(np.full(3, np.nan))).all()
