"""95 % confidence intervals: a bootstrap over images, and the influences of rated pairs.

Queries that show or describe one image, such as its five captions, succeed and fail together, so
images are resampled, with replacement. All metrics of a benchmark, and two models on one benchmark,
use the same resamples: means over directions and differences between models keep the variation that
their parts share.

The samples of a correlation draw one pair per query. The reported mean of a thousand samples
averages over all pairs of a query, so it varies less than a single sample. To first order, its
error is the sum of the influences of the pairs, see `metrics.compute_influence`. Influences of
pairs that share an image are correlated, others are not: the variance of the sum is the sum of
their products over all such couples of pairs (the dyadic cluster-robust variance of Aronow, Samii
and Assenova 2015). A bootstrap of queries with all their pairs would count a pair that is drawn
from both of its ends as two, and its intervals would be too narrow by up to a half.
"""

import functools

import numpy as np

from xmodal.evals.reports.metrics import MEDIAN_RANK
from xmodal.evals.reports.results import CorrelationResult, Result

_BLOCKS = 16
_LEVEL = 0.975  # The two tails leave 5 %.


@functools.lru_cache(maxsize=2)
def draw_resamples(num_images: int, samples: int, seed: int) -> np.ndarray:
    """Returns how often every image is in every resample, float64 [S, N].

    A resample has N of N images, drawn with replacement; the same seed gives the same resamples.
    """
    generator = np.random.default_rng(seed)
    counts = np.empty((samples, num_images))
    for row in counts:
        images = generator.integers(max(num_images, 1), size=num_images)
        row[:] = np.bincount(images, minlength=num_images)
    return counts


def _compute_medians(counts: np.ndarray, rank: np.ndarray, images: np.ndarray) -> np.ndarray:
    """Returns the median rank of every resample, float64 [S]; NaN without queries.

    Args:
      counts: see `draw_resamples`.
      rank: int [Q], 0-based rank of every query.
      images: int [Q], the image of every query.
    """
    order = np.argsort(rank, kind="stable")
    rank, images = rank[order].astype(np.int64), images[order].astype(np.int64)
    # Queries are counted by blocks, and one by one only in the block of the median.
    size = -(-len(rank) // _BLOCKS) or 1
    keys = images * _BLOCKS + np.arange(len(rank)) // size
    table = np.bincount(keys, minlength=counts.shape[1] * _BLOCKS).reshape(-1, _BLOCKS)
    sums = counts @ table.astype(np.float64)
    ends, medians = np.cumsum(sums, axis=1), np.full(len(counts), np.nan)
    middle = np.stack([(ends[:, -1] - 1) // 2, ends[:, -1] // 2])
    blocks = np.sum(ends <= middle[..., None], axis=2).T
    for first, last in np.unique(blocks[ends[:, -1] > 0], axis=0):
        some = np.flatnonzero((blocks == (first, last)).all(axis=1) & (ends[:, -1] > 0))
        start = first * size
        # Places of the last copies, from 1.
        places = np.cumsum(counts[np.ix_(some, images[start : (last + 1) * size])], axis=1)
        places += (ends[some, first] - sums[some, first])[:, None]
        chosen = rank[start + np.sum(places <= middle[:, some, None], axis=2)]
        medians[some] = chosen.sum(axis=0) // 2 + 1
    return medians


def resample(
    benchmark: Result, *, samples: int = 1000, seed: int = 0
) -> dict[str, dict[str, np.ndarray]]:
    """Returns direction -> metric -> float64 [S], its value on each resample.

    The images of a benchmark are those in any of its directions; benchmarks with the same number
    of images share their resamples. Values are NaN if a resample has no query of the direction.
    """
    directions = benchmark.directions
    if not directions:
        return {}
    images = np.unique(np.concatenate([each.clusters for each in directions.values()]))
    counts = draw_resamples(len(images), samples, seed)
    at = {name: np.searchsorted(images, each.clusters) for name, each in directions.items()}
    columns = [
        np.bincount(at[name], values, len(images))
        for name, each in directions.items()
        for values in (None, *each.values.values())
    ]
    # One product for the whole benchmark, since every product reads the large matrix.
    sums = iter((counts @ np.stack(columns, axis=1).astype(np.float64)).T)
    found: dict[str, dict[str, np.ndarray]] = {}
    for name, each in directions.items():
        queries = next(sums)
        with np.errstate(invalid="ignore"):  # 0 / 0 for a resample without queries.
            found[name] = {metric: next(sums) / queries for metric in each.values}
        if each.rank is not None and each.has_median:
            found[name][MEDIAN_RANK] = _compute_medians(counts, each.rank, at[name])
    return found


def compute_interval(samples: np.ndarray) -> tuple[float, float]:
    """Returns the limits of the middle 95 % of samples, rounded outward to actual samples.

    Undefined samples (NaN) are ignored; without any defined one, the limits are NaN.
    """
    samples = samples[~np.isnan(samples)]
    if len(samples) == 0:
        return np.nan, np.nan
    low = np.percentile(samples, 2.5, method="lower")
    return float(low), float(np.percentile(samples, 97.5, method="higher"))


def compute_correlation_interval(
    value: float, items: np.ndarray, influence: np.ndarray, noise: float = 0.0, *, unit: float = 1.0
) -> tuple[float, float]:
    """Returns the limits of a correlation of pairs, or of a mean of several, by Fisher's transform.

    Args:
      value: the correlation; NaN if there is none.
      items: ids [2, P] of the images, or of other items, of every pair.
      influence: float [P], influence of every pair on the correlation.
      noise: variance of the mean over the protocol's draws.
      unit: a perfect correlation, 100 in percent.
    """
    half = _compute_half_width(items, influence, noise) / unit
    value = value / unit
    if abs(value) >= 1:  # Nothing varies.
        return unit * value, unit * value
    low, high = np.tanh(np.arctanh(value) + np.array([-1, 1]) * half / (1 - value * value))
    return unit * float(low), unit * float(high)


def compute_difference_interval(
    ours: CorrelationResult, theirs: CorrelationResult
) -> tuple[float, float]:
    """Returns the limits, in percent, of ours minus theirs on the same rated pairs in any order."""
    (mean, noise), (other, other_noise) = compute_mean(ours.samples), compute_mean(theirs.samples)
    noise += other_noise
    if len(ours.samples) == len(theirs.samples):  # Samples of the same draws are correlated.
        noise = compute_mean(ours.samples - theirs.samples)[1]
    if np.array_equal(ours.images, theirs.images):
        images, influence = ours.images, ours.influence - theirs.influence
    else:
        images = np.concatenate([ours.images, theirs.images], axis=1)
        influence = np.concatenate([ours.influence, -theirs.influence])
    half = _compute_half_width(images, influence, noise)
    return mean - other - half, mean - other + half


def _compute_half_width(images: np.ndarray, influence: np.ndarray, noise: float) -> float:
    """Half of the width of an interval; `noise` is the variance of the protocol's draws.

    Args:
      images: ids [2, P] of the images, or other items, of every pair.
      influence: float [P].
      noise: a variance.
    """
    ids, ends = np.unique(images, return_inverse=True)
    low, high = np.sort(ends.reshape(2, -1), axis=0).astype(np.int64)
    by_image = np.bincount(low, influence, len(ids))
    by_image += np.bincount(high, np.where(low == high, 0, influence), len(ids))
    # Pairs that share two images would count twice.
    dyads, dyad = np.unique(low * len(ids) + high, return_inverse=True)
    by_dyad = np.bincount(dyad, influence) ** 2
    within_image = dyads // len(ids) == dyads % len(ids)
    variance = np.sum(by_image**2) - np.sum(by_dyad[~within_image])
    variance = max(variance, np.sum(by_dyad))  # For few images, it may even be negative.
    from scipy import special  # Slow to import, and not every evaluation has intervals.

    return float(special.stdtrit(max(len(ids) - 1, 1), _LEVEL) * np.sqrt(variance + noise))


def compute_mean(samples: np.ndarray) -> tuple[float, float]:
    """Returns the mean of the defined draws, and its variance; NaN without any."""
    defined = samples[~np.isnan(samples)]
    if len(defined) == 0:
        return np.nan, np.nan
    return float(defined.mean()), float(defined.var() / len(defined))
