"""Recall, median rank, precision and correlation: functions of ranks, lists and scores."""

from collections.abc import Mapping, Sequence

import numpy as np

from xmodal.evals.labels.positives import Ragged

MEDIAN_RANK = "median_rank"
LOWER_IS_BETTER = (MEDIAN_RANK,)
"""Ends of the tags of metrics that are better if lower, also of added evaluators."""
MAP, RECIPROCAL_RANK = "map", "mrr"
# The metrics that select checkpoints where none is named: the first that a benchmark has. The ends
# of their tags: the mean over i2t and t2i, or t2t.
SELECTED = (RECIPROCAL_RANK, "recall@10")
MEAN_SELECTED = tuple(f"mean_{metric}" for metric in SELECTED)
# Begin the names of metrics; the number of items that they read follows.
RECALL, NDCG = "recall@", "ndcg@"
# Metrics of one table, in the order in which they break ties.
_FAMILIES = (
    ("recall@10", "recall@5", "recall@1", MEDIAN_RANK),
    ("accuracy@5", "accuracy@1", "mean_class_accuracy"),
    ("pearson", "spearman"),
)
# Tables behind a mean over directions; with `MEAN_SELECTED` also that of a model of texts.
_TABLES = ("mean", "i2t", "t2i", "t2t")


def lower_is_better(tag: str) -> bool:
    """Returns whether lower values of the metric at the end of a tag are better."""
    return tag.endswith(LOWER_IS_BETTER)


def tie_breakers(tag: str) -> list[str]:
    """Returns tags that may differ where a metric is equal, such as a saturated R@10, in order.

    They have other metrics of the same table, or of the tables behind a mean over directions. An
    evaluation may lack some of them.
    """
    benchmark, _, metric = tag.rpartition("/")
    tables = [benchmark]
    if metric in (*MEAN_SELECTED, "rsum") or benchmark.endswith("/mean"):
        tables = [f"{benchmark.removesuffix('/mean')}/{table}" for table in _TABLES]
    metric = "recall@10" if metric == "rsum" else metric.removeprefix("mean_")
    family = next((each for each in _FAMILIES if metric in each), ())
    return [f"{table}/{other}" for other in family if other != metric for table in tables]


def find_best(tag: str, models: Sequence[Mapping[str, float]]) -> list[bool]:
    """Returns for each model whether it is the best or its interval overlaps that of the best.

    Args:
      tag: the metric.
      models: metrics by tag; `_low` and `_high` of the tag are its 95 % interval, without which
        values are taken as exact.

    Returns:
      A boolean per model; all false if fewer than two have the metric.
    """
    values = np.array([each.get(tag, np.nan) for each in models])
    if np.sum(~np.isnan(values)) < 2:
        return [False] * len(models)
    low, high = (
        np.array([each.get(f"{tag}_{end}", x) for each, x in zip(models, values, strict=True)])
        for end in ("low", "high")
    )
    best = np.nanargmin(values) if lower_is_better(tag) else np.nanargmax(values)
    return [bool(x) for x in (low <= high[best]) & (low[best] <= high) & ~np.isnan(values)]


def compute_recall_values(rank: np.ndarray, metrics: Sequence[str]) -> dict[str, np.ndarray]:
    """Returns the recalls and the reciprocal rank among `metrics` by name, for each query.

    For 0-based ranks of the best positive, int32 [Q], `recall@k` is float64 [Q], 100 if the rank is
    below k, else 0; `mrr` is float64 [Q], 100 / (rank + 1).
    """
    found = {
        name: np.where(rank < int(name.removeprefix(RECALL)), 100.0, 0.0)
        for name in metrics
        if name.startswith(RECALL)
    }
    return found | ({RECIPROCAL_RANK: 100 / (rank + 1)} if RECIPROCAL_RANK in metrics else {})


def compute_median_rank(rank: np.ndarray) -> float:
    """Returns the median 1-based rank of 0-based ranks, int [Q].

    A median halfway between two ranks is rounded down (the convention of VSE++).
    """
    return float(np.floor(np.median(rank)) + 1)


def compute_map(hits: np.ndarray, r: np.ndarray) -> np.ndarray:
    """Returns the average precision of every query: the summed precision at each hit, over R.

    It is trec_eval's `map` if `hits` has the whole gallery, see `compute_map_at_r`.
    """
    return np.sum(np.cumsum(hits, axis=1) / np.arange(1, hits.shape[1] + 1) * hits, axis=1) / r


def compute_map_at_r(hits: np.ndarray, r: np.ndarray) -> np.ndarray:
    """Returns mAP@R of every query: the summed precision at each hit in the first R, over R.

    Musgrave et al. 2020, as computed by the eccv_caption library: the sum is divided by R, not by
    the number of hits.

    Args:
      hits: bool [Q, depth], which items of the list are positives; depth is at least the largest R.
      r: int [Q], number of positives of every query, at least 1.

    Returns:
      float64 [Q] in 0..1.
    """
    return compute_map(hits & (np.arange(hits.shape[1]) < r[:, None]), r)


def compute_r_precision(hits: np.ndarray, r: np.ndarray) -> np.ndarray:
    """Returns the share of positives among the first R, see `compute_map_at_r`."""
    place = np.arange(1, hits.shape[1] + 1)
    return np.sum(hits & (place <= r[:, None]), axis=1) / r


def compute_discounts(count: int) -> np.ndarray:
    """Returns 1 / log2(place + 1) of the first places, float64 [count].

    A discounted cumulative gain is the sum of discounted grades (Järvelin and Kekäläinen 2002, with
    the linear gains and the discounts of trec_eval's `ndcg_cut`).
    """
    return 1 / np.log2(np.arange(2, count + 2))


def compute_average_precision(scores: np.ndarray, positive: np.ndarray) -> float:
    """Returns the mean over positives of the precision at their scores, in 0..1.

    It is NaN without any positive, or if scores are not finite.
    The precision at a score, float [N], is the share of positives, bool [N], among all items that
    score at least as high. The order of the items does not matter.
    """
    if not positive.any() or not np.isfinite(scores).all():
        return float("nan")
    own = -scores[positive]
    hits, items = (np.searchsorted(np.sort(x), own, side="right") for x in (own, -scores))
    return float(np.mean(hits / items))


def draw_pairs(pairs_of_query: Ragged, *, samples: int, seed: int) -> np.ndarray:
    """Returns the rated pairs of every bootstrap sample, int32 [S, Q // 2].

    Draws half of the queries without replacement, and for each of them one of its rated pairs, all
    equally likely (Crisscrossed Captions, section 5). A pair may occur twice in a sample, once
    from each end. `pairs_of_query` has one non-empty row per query.
    """
    generator = np.random.default_rng(seed)
    num_queries = len(pairs_of_query.lengths)
    drawn = np.empty((samples, num_queries // 2), np.int32)
    for row in drawn:
        query = generator.choice(num_queries, len(row), replace=False, shuffle=False)
        # Faster than drawing integers with a bound for each query.
        lengths = pairs_of_query.lengths[query]
        which = (generator.random(len(row)) * lengths).astype(np.int64)
        row[:] = pairs_of_query.values[pairs_of_query.offsets[query] + which]
    return drawn


def compute_shares(pairs_of_query: Ragged, num_pairs: int) -> np.ndarray:
    """Returns every pair's expected share of a sample of `draw_pairs`, float64 [P], sum 1."""
    lengths = pairs_of_query.lengths
    shares = np.repeat(1 / (len(lengths) * lengths), lengths)
    return np.bincount(pairs_of_query.values, shares, num_pairs)


def compute_influence(x: np.ndarray, y: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Returns the influence of every pair on Spearman's correlation.

    To first order, the correlation of a sample whose pairs have these shares deviates from that of
    all possible pairs by the sum of the influences (Croux and Dehon 2010, section 2, here with ties
    at their average rank). The influences sum to 0.

    Args:
      x: float [P], one value per pair.
      y: float [P].
      shares: float [P], shares of the pairs, sum 1.

    Returns:
      float64 [P]; NaN where Spearman's correlation is undefined.
    """
    if not (np.ptp(x) > 0 and np.ptp(y) > 0):  # A constant, or NaN.
        return np.full(len(x), np.nan)
    # Mid-ranks in 0..1 minus their mean, and the codes of equal values.
    (a, at), (b, bt) = (_center_shares(values, shares) for values in (x, y))
    covariance, of_a, of_b = (np.sum(shares * each) for each in (a * b, a * a, b * b))

    def center(values: np.ndarray) -> np.ndarray:
        return values - np.sum(shares * values)

    def sum_above(codes: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Sum of values over the pairs above each pair, plus half of those at its rank."""
        totals = np.bincount(codes, shares * values)
        return (totals.sum() - np.cumsum(totals) + totals / 2)[codes]

    # A pair shifts the ranks of all pairs above it.
    on_covariance = center(a * b + sum_above(at, b) + sum_above(bt, a))
    on_a, on_b = center(a * a + 2 * sum_above(at, a)), center(b * b + 2 * sum_above(bt, b))
    scale = np.sqrt(of_a * of_b)
    correlation = covariance / scale
    return shares * (on_covariance / scale - correlation / 2 * (on_a / of_a + on_b / of_b))


def _center_shares(values: np.ndarray, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Share of the pairs below each plus half of those at its rank, minus 1/2; order codes."""
    codes = np.unique(values, return_inverse=True)[1]
    totals = np.bincount(codes, shares)
    return (np.cumsum(totals) - totals / 2 - 0.5)[codes], codes


def compute_spearman(x: np.ndarray, y: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Returns the Spearman correlation within every sample, ties at their average rank.

    The values of all pairs are encoded by their order once; ranks within a sample then follow from
    counting codes, without sorting.

    Args:
      x: float [P], one value per pair.
      y: float [P].
      drawn: int [S, n], the pairs of every sample.

    Returns:
      float64 [S]; NaN where the correlation is undefined: x or y is constant in the sample or NaN
      in one of its pairs, or the sample has fewer than two pairs.
    """
    if drawn.shape[1] < 2:
        return np.full(len(drawn), np.nan)
    x_codes, y_codes = (np.unique(values, return_inverse=True)[1] for values in (x, y))
    result = np.empty(len(drawn))
    for number, pairs in enumerate(drawn):
        a, b = _centered_ranks(x_codes[pairs]), _centered_ranks(y_codes[pairs])
        variances = float((a * a).sum()) * float((b * b).sum())
        result[number] = (a * b).sum() / np.sqrt(variances) if variances else np.nan
    unknown = np.isnan(x) | np.isnan(y)
    if unknown.any():  # The codes treat NaN as the highest value.
        result[unknown[drawn].any(1)] = np.nan
    return result


def _centered_ranks(codes: np.ndarray) -> np.ndarray:
    """Twice the average ranks of order codes [n], minus their mean: int64."""
    counts = np.bincount(codes)
    # A code occupies ranks last - count + 1 to last: twice their middle is its double rank, and the
    # mean of all double ranks is n + 1.
    last = np.cumsum(counts)
    return 2 * last[codes] - counts[codes] - len(codes)
