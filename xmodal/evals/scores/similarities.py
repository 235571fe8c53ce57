"""Similarities of positive and other pairs, for histograms."""

import numpy as np

from xmodal.evals.labels.positives import Ragged
from xmodal.evals.scores.score_rows import Scores


def draw_similarities(
    scores: Scores, positives: Ragged, count: int, *, exclude_self: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the scores of random positive pairs and of random other pairs, float32 [<= count].

    The same pairs are drawn for the same labels, so that the histograms of two steps are
    comparable. Pairs that a second stage has not scored are left out.

    Args:
      scores: scores of Q queries and N items.
      positives: positives of every query.
      count: largest number of pairs of either kind.
      exclude_self: whether queries and items are one gallery; an item is then not paired with
        itself.
    """
    generator = np.random.default_rng(0)
    rows = np.repeat(np.arange(len(positives.lengths)), positives.lengths)
    chosen = generator.permutation(len(rows))[:count]
    owners, matches = rows[chosen], positives.values[chosen].astype(np.int64)
    scored = scores.find_scored(owners, matches)
    matching = scores.pairs(owners[scored], matches[scored])
    queries = generator.integers(scores.shape[0], size=count)
    items = generator.integers(scores.shape[1], size=count)
    other = ~positives.contains(queries, items) & scores.find_scored(queries, items)
    if exclude_self:
        other &= queries != items
    return matching, scores.pairs(queries[other], items[other])
