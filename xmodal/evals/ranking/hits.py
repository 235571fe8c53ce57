"""Counts positives in the top of very long lists."""

import numpy as np

from xmodal.evals.boards.relation import Relation
from xmodal.evals.ranking.products import Scores


def count_hits(
    scores: Scores,
    relation: Relation,
    r: np.ndarray,
    folds: tuple[np.ndarray, np.ndarray] | None = None,
) -> np.ndarray:
    """Counts the positives among the first R items, for an R of thousands.

    Ties are broken as in the lists: of two equal scores the smaller position comes first.

    Args:
      scores: of Q queries and N items.
      relation: the positives.
      r: int [Q], at most the number of items a query meets.
      folds: int [Q] and [N]; a query meets only items of its fold. None for all items.

    Returns:
      int [Q].
    """
    (queries, items), (rows, columns) = scores.shape, scores.tile_shape
    counts = np.zeros(queries, np.int64)
    for start in range(0, queries, rows):
        tiles = [np.asarray(scores.tile(start // rows, j)) for j in range(-(-items // columns))]
        block = np.concatenate(tiles, axis=1)[:, :items]
        for query, row in enumerate(block[: queries - start], start):
            if folds is not None:
                row = np.where(folds[1] == folds[0][query], row, -np.inf)
            top = np.argsort(-row, kind="stable")[: r[query]]
            counts[query] = np.sum(relation.contains(query, top))
    return counts
