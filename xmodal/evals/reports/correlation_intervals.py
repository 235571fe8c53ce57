"""95 % confidence intervals of correlations, from the influence of every rated pair.

The protocol's samples draw one pair per query. The reported mean of a thousand samples averages
over all pairs of a query, so it varies less than a single sample. To first order, its error is the
sum of the influences of the pairs, see `metrics.compute_influence`. Influences of pairs that share
an image are correlated, others are not: the variance of the sum is the sum of their products over
all such couples of pairs (the dyadic cluster-robust variance of Aronow, Samii and Assenova 2015). A
bootstrap of queries with all their pairs would count a pair that is drawn from both of its ends as
two, and its intervals would be too narrow by up to a half.
"""

import numpy as np

from xmodal.evals.reports.results import CorrelationResult

_LEVEL = 0.975  # The two tails leave 5 %.


def compute_correlation_interval(result: CorrelationResult) -> tuple[float, float]:
    """Returns the limits in percent, by Fisher's transform; NaN if there is no correlation."""
    mean, noise = _average(result.samples)
    low, high = _limit(
        mean / 100, _compute_half_width(result.images, result.influence, noise) / 100
    )
    return 100 * low, 100 * high


def compute_pairs_interval(
    value: float, items: np.ndarray, influence: np.ndarray
) -> tuple[float, float]:
    """Returns the limits of a correlation of pairs in -1..1, or of a mean of several.

    Args:
      value: the correlation.
      items: ids [2, P] of both items of every pair.
      influence: float [P], influence of every pair on the correlation.
    """
    return _limit(value, _compute_half_width(items, influence, 0.0))


def _limit(value: float, half: float) -> tuple[float, float]:
    """Limits around a value in -1..1, by Fisher's transform."""
    if abs(value) >= 1:  # Nothing varies.
        return value, value
    low, high = np.tanh(np.arctanh(value) + np.array([-1, 1]) * half / (1 - value * value))
    return float(low), float(high)


def compute_difference_interval(
    ours: CorrelationResult, theirs: CorrelationResult
) -> tuple[float, float]:
    """Returns the limits, in percent, of ours minus theirs on the same rated pairs in any order."""
    (mean, noise), (other, other_noise) = _average(ours.samples), _average(theirs.samples)
    noise += other_noise
    if len(ours.samples) == len(theirs.samples):  # Samples of the same draws are correlated.
        noise = _average(ours.samples - theirs.samples)[1]
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


def _average(samples: np.ndarray) -> tuple[float, float]:
    """Mean of the defined draws, and its variance; NaN without any."""
    defined = samples[~np.isnan(samples)]
    if len(defined) == 0:
        return np.nan, np.nan
    return float(defined.mean()), float(defined.var() / len(defined))
