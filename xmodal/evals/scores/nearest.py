"""The items that score highest with each query, apart from its positives."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from xmodal.core.errors import UserError
from xmodal.evals.labels.positives import Ragged, Relation
from xmodal.evals.scores.score_rows import Scores, top_items


def find_negatives(
    scores: Scores, queries: np.ndarray, top: int, positives: Sequence[Ragged | Relation]
) -> np.ndarray:
    """Returns the best negatives of queries at positions [q], best first, int32 [q, top].

    Of equal scores, the earlier item comes first.

    Args:
      scores: scores of all queries and items.
      queries: positions.
      top: number of negatives per query.
      positives: relations whose items are left out.

    Raises:
      UserError: a query has fewer negatives.
    """
    items, found = np.arange(scores.shape[1]), []
    for at, block in scores.blocks(queries):
        rows = np.array(block)
        for each in positives:
            own = each.expand(queries[at]) if isinstance(each, Ragged) else None
            rows[each.contains(queries[at][:, None], items) if own is None else own] = -np.inf
        fewest = int(np.count_nonzero(rows > -np.inf, axis=1).min())
        if fewest < top:
            raise UserError(
                f"A query has only {fewest:,} negatives among {len(items):,} items, fewer than "
                f"{top:,}; mine fewer."
            )
        found.append(top_items(rows, top).astype(np.int32))
    return np.concatenate(found)


@jax.jit
def merge_best(
    scores: jax.Array, items: jax.Array, tile: jax.Array, start: jax.Array, count: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Merges the best items so far with those of a tile; of equal scores, the earlier comes first.

    Args:
      scores: the best scores so far [Q, K], descending.
      items: their items, int32 [Q, K].
      tile: scores [Q, N] of later items.
      start: position of the first of these items.
      count: number of columns of the tile that are real.
    """
    top = scores.shape[1]
    tile = jnp.where(tile == 0, 0.0, tile)  # By the bits, as top_k sorts, -0.0 is smaller.
    tile = jnp.where(jnp.arange(tile.shape[1]) < count, tile, -jnp.inf)
    found, places = jax.lax.top_k(tile, min(top, tile.shape[1]))
    # Those so far are on the left: of equals, top_k takes the left one.
    scores, chosen = jax.lax.top_k(jnp.concatenate([scores, found], axis=1), top)
    items = jnp.concatenate([items, start + places.astype(jnp.int32)], axis=1)
    return scores, jnp.take_along_axis(items, chosen, axis=1)
