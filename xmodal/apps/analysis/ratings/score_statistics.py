"""Statistics of rated pairs, and cosines of their words."""

import dataclasses
import re
import warnings
from collections.abc import Mapping

import numpy as np

from data_prep.cxc.rating_files import KINDS
from xmodal.apps.analysis.ratings.rated_pairs import RatedPairs
from xmodal.core.text_table import Rows

ALL = "all"
_MANY_METHODS = 6
_WORD = re.compile(r"\w+")


@dataclasses.dataclass(frozen=True)
class Summary:
    """Pairs of one rating from one sampling method, or all pairs of the rating.

    Attributes:
      rating: see `RatedPairs`.
      method: sampling method, or `ALL`.
      pairs: number of pairs.
      mean: mean of the scores.
      quartiles: quartiles of the scores.
      threshold: smallest score of a positive pair; None if not known.
      positives: number of positive pairs; None if the threshold is not known.
      rater_deviation: mean over pairs of the standard deviation of their raters; None if raters
        are not known.
    """

    rating: str
    method: str
    pairs: int
    mean: float
    quartiles: tuple[float, float, float]
    threshold: float | None
    positives: int | None
    rater_deviation: float | None


def summarize(rated: Mapping[str, RatedPairs], positive: Mapping[str, float]) -> list[Summary]:
    """One row for every sampling method of every rating, and one for the rating.

    Args:
      rated: rating -> its pairs.
      positive: rating -> score from which a pair is positive; other ratings have no positives.
    """
    found = []
    for rating, pairs in rated.items():
        deviations, threshold = rater_deviations(pairs), positive.get(rating)
        for method, rows in methods_of(pairs).items():
            scores, spread = pairs.scores[rows].astype(np.float64), None
            if deviations is not None and np.isfinite(deviations[rows]).any():
                spread = float(np.nanmean(deviations[rows]))
            found.append(Summary(
                rating=pairs.rating,
                method=method,
                pairs=len(scores),
                mean=float(scores.mean()),
                quartiles=tuple(np.percentile(scores, (25, 50, 75)).tolist()),
                threshold=threshold,
                positives=None if threshold is None else int(np.sum(scores >= threshold)),
                rater_deviation=spread,
            ))  # fmt: skip
    return found


def methods_of(pairs: RatedPairs) -> dict[str, np.ndarray]:
    """Sampling method -> mask of its pairs, bool [P].

    All pairs come first, as `ALL`, unless there is only one named method. Methods follow, the most
    frequent one first, or, if they are many sets of pairs, by name.
    """
    names, counts = np.unique(pairs.methods, return_counts=True)
    if len(names) <= _MANY_METHODS:
        names = names[np.argsort(-counts, kind="stable")]
    found = {str(name): pairs.methods == name for name in names}
    everything = {ALL: np.ones(len(pairs), bool)}
    if found.keys() <= {"", pairs.rating}:
        return everything
    return everything | found if len(found) > 1 else found


def name_of(rating: str, method: str) -> str:
    """The name of a method's pairs in figures."""
    return rating if method == ALL else f"{rating}, {method}"


def spearman(left: np.ndarray, right: np.ndarray) -> float:
    """Spearman's correlation, NaN if one side is constant."""
    from scipy.stats import spearmanr  # Slow to import.

    with warnings.catch_warnings(action="ignore"):  # SciPy's, of constants.
        return float(spearmanr(left, right).statistic)


def rater_deviations(pairs: RatedPairs) -> np.ndarray | None:
    """Standard deviation of the raters of every pair (R - 1 in the denominator), float64 [P].

    NaN for pairs with fewer than two known raters; None if no pair has two.
    """
    if pairs.rater_scores is None:
        return None
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # NumPy's, of NaN.
        found = np.nanstd(pairs.rater_scores, axis=1, ddof=1, dtype=np.float64)
    return None if np.isnan(found).all() else found


def positives_per_item(pairs: RatedPairs, threshold: float) -> dict[str, np.ndarray]:
    """Counts the positives of the items of each kind.

    Returns:
      "caption" or "image" -> int [N], for every such item that was rated at all. Pairs of one kind
      count for both of their items, and once if they were rated in both orders.
    """
    if pairs.left_ids is None:
        return {}
    # Ratings besides those of CxC pair a caption with an image.
    kinds = KINDS.get(pairs.rating, KINDS["sits"])
    ends = np.stack([pairs.left_ids, pairs.right_ids], axis=1)
    positive = ends[pairs.scores >= threshold]
    if kinds[0] == kinds[1]:
        positive = np.unique(np.sort(positive, axis=1), axis=0)
        ends, positive = ends.reshape(-1, 1), positive.reshape(-1, 1)
    found = {}
    for kind, rated, matching in zip(kinds, ends.T, positive.T, strict=False):
        ids = np.unique(rated)
        found[kind] = np.bincount(np.searchsorted(ids, matching), minlength=len(ids))
    return found


def tabulate_summaries(summaries: list[Summary]) -> Rows:
    """The cells of a table, a row per summary."""
    rows = [("rating", "sampling method", "pairs", "mean", "quartiles", "positives", "rater SD")]
    for each in summaries:
        quartiles = " ".join(f"{value:.2f}" for value in each.quartiles)
        positives = "" if each.positives is None else f"{each.positives:,} (≥ {each.threshold:g})"
        deviation = "" if each.rater_deviation is None else f"{each.rater_deviation:.3f}"
        pairs, mean = f"{each.pairs:,}", f"{each.mean:.2f}"
        rows.append((each.rating, each.method, pairs, mean, quartiles, positives, deviation))
    return rows


def word_cosines(sentences: np.ndarray) -> np.ndarray:
    """Returns the cosine of the word counts of every two sentences.

    Args:
      sentences: strings [P, 2].

    Returns:
      float32 [P], NaN if a sentence has no word.
    """
    from scipy.sparse import csr_array  # Slow to import.

    texts, rows = np.unique(sentences.ravel().astype(str), return_inverse=True)
    words = [_WORD.findall(text.lower()) for text in texts.tolist()]
    owners = np.repeat(np.arange(len(texts)), [len(each) for each in words])
    names, columns = np.unique([word for each in words for word in each], return_inverse=True)
    size = len(texts), len(names) or 1
    counts = csr_array((np.ones(len(owners)), (owners, columns.astype(int))), size)
    left, right = (counts[side] for side in rows.reshape(-1, 2).T)
    dots = [a.multiply(b).sum(axis=1) for a, b in ((left, right), (left, left), (right, right))]
    with np.errstate(invalid="ignore"):
        return (dots[0] / np.sqrt(dots[1] * dots[2])).astype(np.float32)
