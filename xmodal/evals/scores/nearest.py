"""The items that score highest with each query, apart from its positives."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from xmodal.core.errors import UserError
from xmodal.core.mesh import to_host
from xmodal.evals.labels.positives import Ragged, Relation
from xmodal.evals.scores.score_tiles import Scores
from xmodal.similarity.precision import in_precision


def find_negatives(
    scores: Scores, i: int, top: int, positives: Sequence[Ragged | Relation]
) -> np.ndarray:
    """Returns the best negatives of the queries of row i of tiles, best first, int32 [b, top].

    Of equal scores, the earlier item comes first.

    Args:
      scores: scores of all queries and items; the devices of its mesh share the columns of a tile.
      i: number of the row of tiles.
      top: number of negatives per query.
      positives: relations whose items are left out.

    Raises:
      UserError: a query has fewer negatives, or a score is not finite.
    """
    (queries, items), height = scores.shape, scores.tile_shape[0]
    rows = np.arange(i * height, min((i + 1) * height, queries))
    most = sum(int(each.lengths[rows].max()) for each in positives)
    found = _find_best(scores, i, min(top + most, items))[: len(rows)]
    is_negative = np.ones(found.shape, bool)
    for each in positives:
        is_negative &= ~each.contains(rows[:, None], found)
    fewest = int(is_negative.sum(axis=1).min())
    if fewest < top:
        raise UserError(
            f"A query has only {fewest:,} negatives among {items:,} items, fewer than {top:,}; "
            "mine fewer."
        )
    order = np.argsort(~is_negative, axis=1, kind="stable")[:, :top]
    return np.take_along_axis(found, order, axis=1)


def _find_best(scores: Scores, i: int, top: int) -> np.ndarray:
    height, width = scores.tile_shape
    with in_precision(scores.dtype):
        best = jnp.full((height, top), -jnp.inf, scores.dtype), jnp.zeros((height, top), jnp.int32)
        for j in range(-(-scores.shape[1] // width)):
            best = merge_best(*best, scores.tile(i, j), j * width, scores.shape[1] - j * width)
        values, items = (to_host(each, scores.mesh) for each in best)
    if not np.isfinite(values[: scores.shape[0] - i * height]).all():
        raise UserError("Scores are not finite; the model diverged.")
    return items


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
