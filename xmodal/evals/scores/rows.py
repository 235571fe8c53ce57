"""Complete rows of scores for a few queries, instead of one pass for all queries."""

import numpy as np

from xmodal.evals.scores.score_tiles import Scores, complete_rows


def score_queries(scores: Scores, queries: np.ndarray, *, exclude_self: bool = False) -> np.ndarray:
    """Returns scores of queries with all items, [P, N], with the same bits as in ranks.

    Args:
      scores: scores of Q queries and N items.
      queries: int [P], positions.
      exclude_self: whether queries and items are one gallery; a query then scores itself -inf.
    """
    height = scores.tile_shape[0]
    rows = np.empty((len(queries), scores.shape[1]), scores.dtype)
    for tile in np.unique(queries // height):
        at = np.flatnonzero(queries // height == tile)
        rows[at] = complete_rows(scores, int(tile))[queries[at] - tile * height]
    if exclude_self:
        rows[np.arange(len(queries)), queries] = -np.inf
    return rows


def order_items(row: np.ndarray) -> np.ndarray:
    """Returns item positions by descending score, int [N]; of equals, the earlier is first."""
    return np.argsort(-row, kind="stable")


def best_items(row: np.ndarray, top: int) -> np.ndarray:
    """Returns the first `top` of `order_items`, int [top], without sorting the others."""
    falling = -row
    last = np.partition(falling, top - 1)[top - 1]
    found = np.flatnonzero(falling <= last)
    return found[np.argsort(falling[found], kind="stable")[:top]]
