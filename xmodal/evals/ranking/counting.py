"""Counts the items ahead of the best positives, one tile of scores after another, on the device."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from xmodal.evals.boards.positives import Ragged


@dataclasses.dataclass(frozen=True)
class Question:
    """One label set, for all queries.

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


class QuestionCounts(NamedTuple):
    """A question on the device, its queries padded to whole tiles, and its counts so far."""

    best: jax.Array  # [Q]
    first: jax.Array  # int32 [Q]
    folds: tuple[jax.Array, jax.Array] | None  # int32 [Q] and [N]
    ahead: jax.Array  # int32 [Q]
    equal: jax.Array  # int32 [Q]


class Side(NamedTuple):
    """All questions of one direction, with the counts so far."""

    questions: tuple[QuestionCounts, ...]
    top_scores: jax.Array  # [Q, depth]
    top_items: jax.Array  # int32 [Q, depth]


def make_side(
    questions: Sequence[Question], best: Sequence[Best], padded: tuple[int, int], depth: int
) -> Side:
    """Places the questions of one direction on the device, with nothing counted yet.

    `padded` are the numbers of queries and of items in whole tiles, `depth` the length of the lists
    to keep, 0 for none.
    """
    queries, items = padded
    counts = []
    for question, found in zip(questions, best, strict=True):
        folds = question.folds
        if folds is not None:  # padding is in no fold
            folds = (_pad(folds[0], queries, -1), _pad(folds[1], items, -1))
        counts.append(
            QuestionCounts(
                best=_pad(found.score, queries, np.inf),
                first=_pad(found.first, queries, 0),
                folds=folds,
                ahead=jnp.zeros(queries, jnp.int32),
                equal=jnp.zeros(queries, jnp.int32),
            )
        )
    return Side(
        tuple(counts),
        top_scores=jnp.full((queries, depth), -jnp.inf, jnp.float32),
        top_items=jnp.full((queries, depth), -1, jnp.int32),
    )


def count(
    sides: tuple[Side, Side],
    tile: jax.Array,
    start: tuple[int, int],
    *,
    sizes: tuple[int, int],
    exclude_self: bool,
    mirrored: bool,
) -> tuple[Side, Side]:
    """Adds one tile of scores to both directions.

    Args:
      sides: counts so far, of the queries and of the items; given up by the caller.
      tile: float32 [B, M].
      start: position of its first query and its first item.
      sizes: number of queries and of items; rows beyond are padding.
      exclude_self: an item does not meet itself.
      mirrored: the tile stands for its transpose too, so its items are also queries of the first
        side.
    """
    query, item = map(np.int32, start)
    stop = start[0] + tile.shape[0], start[1] + tile.shape[1]
    on_diagonal = exclude_self and start[0] < stop[1] and start[1] < stop[0]
    if on_diagonal or stop[0] > sizes[0] or stop[1] > sizes[1]:
        tile = _strike(tile, query, item, sizes=sizes, exclude_self=exclude_self)
    forward = _count_side(sides[0], tile, query, item, axis=0)
    if mirrored:
        return _count_side(forward, tile, item, query, axis=1), sides[1]
    return forward, _count_side(sides[1], tile, item, query, axis=1)


@functools.partial(jax.jit, static_argnames=("sizes", "exclude_self"))
def _strike(
    tile: jax.Array,
    query: jax.Array,
    item: jax.Array,
    *,
    sizes: tuple[int, int],
    exclude_self: bool,
) -> jax.Array:
    """The tile without padding and, on request, without an item against itself."""
    queries = query + jnp.arange(tile.shape[0], dtype=jnp.int32)[:, None]
    items = item + jnp.arange(tile.shape[1], dtype=jnp.int32)[None]
    competes = (queries < sizes[0]) & (items < sizes[1])
    if exclude_self:
        competes &= queries != items
    return jnp.where(competes, tile, -jnp.inf)


def _count_side(side: Side, tile: jax.Array, query: np.int32, item: np.int32, *, axis: int) -> Side:
    """Adds a tile to one direction, whose queries lie along `axis`, from position `query` on."""
    # A compiled function per question: on a CPU each holds a few tiles meanwhile, and if all held
    # theirs together, fresh memory from the system would cost ten times more than the counting.
    questions = tuple(
        _count_question(each, tile, query, item, axis=axis) for each in side.questions
    )
    if not side.top_scores.shape[1]:
        return side._replace(questions=questions)
    return Side(questions, *_merge(side.top_scores, side.top_items, tile, query, item, axis=axis))


@functools.partial(jax.jit, static_argnames="axis", donate_argnames="state")
def _count_question(
    state: QuestionCounts, tile: jax.Array, query: jax.Array, item: jax.Array, *, axis: int
) -> QuestionCounts:
    """Adds a tile to the counts of one question."""
    num_queries, num_items = tile.shape[axis], tile.shape[1 - axis]

    def rows_of(values: jax.Array) -> jax.Array:
        return jax.lax.dynamic_slice_in_dim(values, query, num_queries)

    def by_query(values: jax.Array) -> jax.Array:
        return jnp.expand_dims(rows_of(values), 1 - axis)

    def by_item(values: jax.Array) -> jax.Array:
        return jnp.expand_dims(values, axis)

    def add(values: jax.Array, counts: jax.Array) -> jax.Array:
        return jax.lax.dynamic_update_slice_in_dim(values, rows_of(values) + counts, query, 0)

    best = by_query(state.best)
    equal = tile == best
    before = by_item(item + jnp.arange(num_items, dtype=jnp.int32)) < by_query(state.first)
    ahead = (tile > best) | (equal & before)
    if state.folds is not None:
        theirs = jax.lax.dynamic_slice_in_dim(state.folds[1], item, num_items)
        same_fold = by_query(state.folds[0]) == by_item(theirs)
        equal, ahead = equal & same_fold, ahead & same_fold
    # Both counts in one sum: a tile has far fewer than 2**15 items.
    counts = ahead.astype(jnp.int32) + (equal.astype(jnp.int32) << 16)
    counts = jnp.sum(counts, axis=1 - axis)
    return state._replace(
        ahead=add(state.ahead, counts & 0xFFFF), equal=add(state.equal, counts >> 16)
    )


@functools.partial(jax.jit, static_argnames="axis", donate_argnames=("top_scores", "top_items"))
def _merge(
    top_scores: jax.Array,
    top_items: jax.Array,
    tile: jax.Array,
    query: jax.Array,
    item: jax.Array,
    *,
    axis: int,
) -> tuple[jax.Array, jax.Array]:
    """Merges a tile into the lists of one direction."""
    tile = tile if axis == 0 else tile.T
    depth = top_scores.shape[1]

    def rows_of(values: jax.Array) -> jax.Array:
        return jax.lax.dynamic_slice_in_dim(values, query, len(tile))

    # Earlier items stand first, and top_k keeps the order of equal scores.
    scores = jnp.concatenate([rows_of(top_scores), tile], axis=1)
    scores, at = jax.lax.top_k(scores, depth)
    earlier = jnp.take_along_axis(rows_of(top_items), jnp.minimum(at, depth - 1), axis=1)
    items = jnp.where(at < depth, earlier, item + at - depth)
    items = jnp.where(scores == -jnp.inf, -1, items)
    return (
        jax.lax.dynamic_update_slice_in_dim(top_scores, scores, query, 0),
        jax.lax.dynamic_update_slice_in_dim(top_items, items, query, 0),
    )


def _pad(values: np.ndarray, size: int, fill: float) -> jax.Array:
    return jnp.asarray(np.pad(values, (0, size - len(values)), constant_values=fill))
