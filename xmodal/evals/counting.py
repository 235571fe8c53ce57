"""Counts what is ahead of the best positives, one tile of scores after another, on the device."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from xmodal.evals.ragged import Ragged


@dataclasses.dataclass(frozen=True)
class Question:
    """One label set, asked of all queries.

    Attributes:
      positives: of Q queries by position among N items.
      folds: int32 [Q] and [N]; a query meets only items of its fold. None for all items.
    """

    positives: Ragged
    folds: tuple[np.ndarray, np.ndarray] | None = None


class Best(NamedTuple):
    """Best positive of every query; infinity and 0 where it has none."""

    score: np.ndarray  # [Q]
    first: np.ndarray  # int32 [Q], the first item of this score among the positives
    count: np.ndarray  # [Q], positives of this score


class Asked(NamedTuple):
    """A question on the device, its queries padded to whole tiles, and what was counted so far."""

    best: jax.Array  # [Q]
    first: jax.Array  # int32 [Q]
    folds: tuple[jax.Array, jax.Array] | None  # int32 [Q] and [N]
    ahead: jax.Array  # int32 [Q]
    equal: jax.Array  # int32 [Q]


class Side(NamedTuple):
    """All that is asked of the queries of one direction."""

    asked: tuple[Asked, ...]
    top_scores: jax.Array  # [Q, depth]
    top_items: jax.Array  # int32 [Q, depth]


def make_side(
    questions: Sequence[Question], best: Sequence[Best], padded: tuple[int, int], depth: int
) -> Side:
    """Places the questions of one direction on the device, with nothing counted yet.

    Args:
      questions: label sets.
      best: best positives of each.
      padded: number of queries and of items, in whole tiles.
      depth: length of the lists to keep; 0 for none.
    """
    queries, items = padded
    asked = []
    for question, found in zip(questions, best, strict=True):
        folds = question.folds
        if folds is not None:  # padding is in no fold
            folds = (_pad(folds[0], queries, -1), _pad(folds[1], items, -1))
        asked.append(
            Asked(
                best=_pad(found.score, queries, np.inf),
                first=_pad(found.first, queries, 0),
                folds=folds,
                ahead=jnp.zeros(queries, jnp.int32),
                equal=jnp.zeros(queries, jnp.int32),
            )
        )
    return Side(
        tuple(asked),
        top_scores=jnp.full((queries, depth), -jnp.inf, jnp.float32),
        top_items=jnp.full((queries, depth), -1, jnp.int32),
    )


@functools.partial(
    jax.jit, static_argnames=("sizes", "exclude_self", "mirrored"), donate_argnames="sides"
)
def count(
    sides: tuple[Side, Side],
    tile: jax.Array,
    start: jax.Array,
    *,
    sizes: tuple[int, int],
    exclude_self: bool,
    mirrored: bool,
) -> tuple[Side, Side]:
    """Adds one tile of scores to both directions.

    Args:
      sides: what was counted so far, of the queries and of the items; given up by the caller.
      tile: float32 [B, M].
      start: int32 [2], position of its first query and its first item.
      sizes: number of queries and of items; what lies beyond is padding.
      exclude_self: an item does not meet itself.
      mirrored: the tile stands for its transpose too, so its items are also queries of the first
        side.
    """
    query = start[0] + jnp.arange(tile.shape[0], dtype=jnp.int32)[:, None]
    item = start[1] + jnp.arange(tile.shape[1], dtype=jnp.int32)[None]
    competes = (query < sizes[0]) & (item < sizes[1])
    if exclude_self:
        competes &= query != item
    tile = jnp.where(competes, tile, -jnp.inf)
    forward = _count_side(sides[0], tile, start[0], start[1], axis=0)
    if mirrored:
        return _count_side(forward, tile, start[1], start[0], axis=1), sides[1]
    return forward, _count_side(sides[1], tile, start[1], start[0], axis=1)


def _count_side(side: Side, tile: jax.Array, query: jax.Array, item: jax.Array, axis: int) -> Side:
    """Adds a tile to one direction, whose queries lie along `axis`, from position `query` on."""
    num_queries, num_items = tile.shape[axis], tile.shape[1 - axis]
    positions = item + jnp.arange(num_items, dtype=jnp.int32)

    def rows_of(values: jax.Array) -> jax.Array:
        return jax.lax.dynamic_slice_in_dim(values, query, num_queries)

    def update(values: jax.Array, rows: jax.Array) -> jax.Array:
        return jax.lax.dynamic_update_slice_in_dim(values, rows, query, 0)

    def by_query(values: jax.Array) -> jax.Array:
        return jnp.expand_dims(values, 1 - axis)

    def by_item(values: jax.Array) -> jax.Array:
        return jnp.expand_dims(values, axis)

    asked = []
    for question in side.asked:
        best, first = by_query(rows_of(question.best)), by_query(rows_of(question.first))
        equal = tile == best
        ahead = (tile > best) | (equal & (by_item(positions) < first))
        if question.folds is not None:
            theirs = jax.lax.dynamic_slice_in_dim(question.folds[1], item, num_items)
            same_fold = by_query(rows_of(question.folds[0])) == by_item(theirs)
            equal, ahead = equal & same_fold, ahead & same_fold
        # Both counts in one sum: a tile has far fewer than 2**15 items.
        counts = ahead.astype(jnp.int32) + (equal.astype(jnp.int32) << 16)
        counts = jnp.sum(counts, axis=1 - axis)
        asked.append(
            question._replace(
                ahead=update(question.ahead, rows_of(question.ahead) + (counts & 0xFFFF)),
                equal=update(question.equal, rows_of(question.equal) + (counts >> 16)),
            )
        )
    if depth := side.top_scores.shape[1]:
        scores = tile if axis == 0 else tile.T
        # Earlier items stand first, and top_k keeps the order of equal scores.
        scores = jnp.concatenate([rows_of(side.top_scores), scores], axis=1)
        items = jnp.broadcast_to(positions, (num_queries, num_items))
        items = jnp.concatenate([rows_of(side.top_items), items], axis=1)
        top_scores, at = jax.lax.top_k(scores, depth)
        top_items = jnp.take_along_axis(items, at, axis=1)
        side = side._replace(
            top_scores=update(side.top_scores, top_scores),
            top_items=update(side.top_items, jnp.where(top_scores == -jnp.inf, -1, top_items)),
        )
    return side._replace(asked=tuple(asked))


def _pad(values: np.ndarray, size: int, fill: float) -> jax.Array:
    return jnp.asarray(np.pad(values, (0, size - len(values)), constant_values=fill))
