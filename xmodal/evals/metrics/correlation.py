"""Spearman correlation of model scores with human ratings, bootstrapped over queries."""

import numpy as np

from xmodal.evals.boards.ragged import Ragged

_CODES_PER_CHUNK = 100_000  # cells of the counting tables at a time: they stay in the cache


def draw_pairs(pairs_of_query: Ragged, *, samples: int, seed: int) -> np.ndarray:
    """Draws the pairs of every bootstrap sample.

    Half of the queries without replacement, and for each of them one of its rated pairs, all
    equally likely (Crisscrossed Captions, section 5). A pair may come twice in a sample,
    once from either end.

    Args:
      pairs_of_query: rated pairs by index, one row per query, none empty.
      samples: S.
      seed: same seed, same pairs.

    Returns:
      int32 [S, Q // 2], indices of pairs.
    """
    generator = np.random.default_rng(seed)
    num_queries = len(pairs_of_query.lengths)
    drawn = np.empty((samples, num_queries // 2), np.int32)
    for row in drawn:
        query = generator.choice(num_queries, len(row), replace=False, shuffle=False)
        # Faster than integers up to a bound for each query.
        lengths = pairs_of_query.lengths[query]
        which = (generator.random(len(row)) * lengths).astype(np.int64)
        row[:] = pairs_of_query.values[pairs_of_query.offsets[query] + which]
    return drawn


def compute_spearman(x: np.ndarray, y: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Spearman correlation of x and y within every sample, ties at their average rank.

    The values of all pairs are coded by their order once; within a sample the ranks then follow
    from counting codes, without sorting.

    Args:
      x: float [P], one value per pair.
      y: float [P].
      drawn: int [S, n], the pairs of every sample.

    Returns:
      float64 [S]; NaN where Spearman is undefined: x or y is constant in the sample or NaN in one
      of its pairs, or the sample has fewer than two pairs.
    """
    if drawn.shape[1] < 2:
        return np.full(len(drawn), np.nan)
    x_codes = np.unique(x, return_inverse=True)[1]
    y_codes = np.unique(y, return_inverse=True)[1]
    chunk = max(1, _CODES_PER_CHUNK // len(x))
    result = np.empty(len(drawn))
    for start in range(0, len(drawn), chunk):
        pairs = drawn[start : start + chunk]
        a, b = _centered_ranks(x_codes[pairs]), _centered_ranks(y_codes[pairs])
        variances = (a * a).sum(1).astype(np.float64) * (b * b).sum(1)
        with np.errstate(invalid="ignore"):  # 0 / 0 of a constant side
            result[start : start + chunk] = (a * b).sum(1) / np.sqrt(variances)
    unknown = np.isnan(x) | np.isnan(y)
    if unknown.any():  # the codes take NaN for the highest value
        result[unknown[drawn].any(1)] = np.nan
    return result


def _centered_ranks(codes: np.ndarray) -> np.ndarray:
    """Twice the average ranks of [S, n] order codes in each row, minus their mean: int64."""
    samples, n = codes.shape
    width = int(codes.max()) + 1
    cells = codes + width * np.arange(samples)[:, None]
    counts = np.bincount(cells.ravel(), minlength=samples * width).reshape(samples, width)
    # Places of one code run from last - count + 1 to last: twice their middle is its double rank,
    # and the mean of all double ranks is n + 1.
    last = np.cumsum(counts, axis=1)
    return (2 * last - counts).ravel()[cells] - n
