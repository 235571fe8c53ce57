"""Counts positives in the top of very long lists, without sorting."""

import jax
import jax.numpy as jnp
import numpy as np

from xmodal.evals.boards.relation import Relation
from xmodal.evals.ranking.products import Scores


def count_hits(
    scores: Scores,
    relation: Relation,
    r: np.ndarray,
    folds: tuple[np.ndarray, np.ndarray] | None = None,
) -> np.ndarray:
    """Counts the positives among the first R items, for an R of thousands, without sorting.

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
    item_group, related = jnp.asarray(relation.gallery_group), jnp.asarray(relation.related)
    counts = []
    for i in range(-(-queries // rows)):
        tiles = [np.asarray(scores.tile(i, j)) for j in range(-(-items // columns))]
        block = slice(i * rows, (i + 1) * rows)
        group, depth = (
            np.resize(values[block].astype(np.int32), rows) for values in (relation.query_group, r)
        )
        whole = np.concatenate(tiles, axis=1)[:, :items]
        if folds is not None:
            own = np.resize(folds[0][block], rows)[:, None]
            whole = np.where(own == folds[1], whole, -np.inf)
        counts.append(_count_hits(whole, related, group, item_group, depth))
    return np.concatenate(counts)[:queries]


@jax.jit
def _count_hits(
    scores: jax.Array,
    related: jax.Array,
    query_group: jax.Array,
    item_group: jax.Array,
    depth: jax.Array,
) -> jax.Array:
    """Positives among the first `depth` of [B, N] scores, [B]."""
    # Ordered like the floats they come from; -0.0 equals 0.0 (a sum with 0.0 would be left out).
    bits = jax.lax.bitcast_convert_type(scores, jnp.int32)
    bits = jnp.where(scores == 0, 0, bits)
    keys = jnp.where(bits < 0, bits ^ jnp.int32(0x7FFFFFFF), bits)

    def halve(_: int, bounds: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = bounds  # at least `depth` keys are >= low, fewer are >= high
        middle = (low & high) + ((low ^ high) >> 1)
        enough = jnp.sum(keys >= middle[:, None], axis=1) >= depth
        return jnp.where(enough, middle, low), jnp.where(enough, high, middle)

    full = jnp.full(depth.shape, 0x7FFFFFFF, jnp.int32)
    last, _ = jax.lax.fori_loop(0, 32, halve, (-full - 1, full))  # key of the last item that counts
    positive = related[query_group][:, item_group]
    above, equal = keys > last[:, None], keys == last[:, None]
    left = depth - jnp.sum(above, axis=1)
    first_equal = equal & (jnp.cumsum(equal, axis=1) <= left[:, None])
    return jnp.sum(positive & (above | first_equal), axis=1)
