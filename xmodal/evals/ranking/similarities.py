"""Similarities of positive and of other pairs, for histograms."""

import numpy as np

from xmodal.evals.boards.positives import Ragged
from xmodal.evals.ranking.scores import Scores


def draw_similarities(
    scores: Scores, positives: Ragged, count: int, *, exclude_self: bool = False, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the scores of random positive pairs and of random other pairs, float32 [<= count].

    The same pairs are drawn for the same labels, so that the histograms of two steps compare.

    Args:
      scores: of Q queries and N items.
      positives: of every query.
      count: pairs of either kind, at most.
      exclude_self: whether queries and items are one gallery; an item is then no pair with itself.
      seed: of the draws.
    """
    generator = np.random.default_rng(seed)
    rows = np.repeat(np.arange(len(positives.lengths)), positives.lengths)
    chosen = generator.permutation(len(rows))[:count]
    matching = scores.pairs(rows[chosen], positives.values[chosen].astype(np.int64))
    queries = generator.integers(scores.shape[0], size=count)
    items = generator.integers(scores.shape[1], size=count)
    other = ~positives.contains(queries, items)
    if exclude_self:
        other &= queries != items
    return matching, scores.pairs(queries[other], items[other])
