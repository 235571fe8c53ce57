"""Counts the items ahead of the best positives, tile by tile, on the devices.

Every device counts its own columns of a tile, and the counts are added once, at the end, so no
collectives run in between. XLA's CPU client runs the programs of all devices on one thread pool,
and a program that waits in a collective keeps its thread, so collectives of several tiles in
progress can block all threads and deadlock.
"""

import dataclasses
import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from xmodal.core.mesh import BATCH_AXIS, put, to_host
from xmodal.evals.labels.positives import Ragged
from xmodal.evals.scores.entrants import find_entrants, mark_entrants

# Number of parts in which a tile's items are counted, by their axis; a tile has a multiple of 64
# items.
_SLABS = (8, 16)
# Both counts of a tile share an int32: items ahead in the lower half, equal ones in the upper.
_EQUAL = 1 << 16
# A tile has few items that enter a list if they are at most this many, or twice its length.
_FEW = 16


@dataclasses.dataclass(frozen=True)
class LabelSet:
    """One label set, for all queries.

    Attributes:
      positives: positives of Q queries by position among N items.
      folds: int32 [Q] and [N]; a query is compared only with items of its fold. None for all items.
    """

    positives: Ragged
    folds: tuple[np.ndarray, np.ndarray] | None = None


class Best(NamedTuple):
    """Best positive of every query; infinity and 0 if it has none."""

    score: np.ndarray  # [Q]
    first: np.ndarray  # int32 [Q], the first item of this score among the positives
    number: np.ndarray  # [Q], positives of this score


class PaddedLabelSet(NamedTuple):
    """A label set on every device, with its queries padded to whole tiles."""

    best: jax.Array  # [Q]
    first: jax.Array  # int32 [Q]
    folds: tuple[jax.Array, jax.Array] | None  # int32 [Q] and [N]


class Counts(NamedTuple):
    """Counts of a label set so far, one row per device, for the columns it has seen."""

    ahead: jax.Array  # int32 [devices, Q]
    equal: jax.Array  # int32 [devices, Q]


class TopK(NamedTuple):
    """Lists so far, one per device, for the columns it has seen."""

    scores: jax.Array | np.ndarray  # [devices, Q, depth]
    items: jax.Array | np.ndarray  # int32 [devices, Q, depth]


class DirectionCounts(NamedTuple):
    """All label sets of one direction, with the counts so far."""

    label_sets: tuple[PaddedLabelSet, ...]
    counts: tuple[Counts, ...]
    top: TopK


def make_side(
    label_sets: Sequence[LabelSet],
    best: Sequence[Best],
    padded: tuple[int, int],
    depth: int,
    mesh: Mesh,
    dtype: np.dtype,
) -> DirectionCounts:
    """Places the label sets of one direction on the devices, with nothing counted yet.

    `padded` gives the numbers of queries and items in whole tiles, `depth` the length of the lists
    to keep (0 for none), `dtype` the type of the scores.
    """
    queries, items = padded
    devices = mesh.shape[BATCH_AXIS]

    def pad(values: np.ndarray, size: int, fill: float) -> jax.Array:
        padded = np.pad(values, (0, size - len(values)), constant_values=fill)
        return put(padded, NamedSharding(mesh, P()))

    def full(shape: tuple[int, ...], fill: float, dtype: Any) -> jax.Array:
        sharding = NamedSharding(mesh, P(BATCH_AXIS))
        return jnp.full((devices, *shape), fill, dtype, device=sharding)

    placed = []
    for label_set, found in zip(label_sets, best, strict=True):
        folds = label_set.folds
        if folds is not None:  # Padding is in no fold.
            folds = pad(folds[0], queries, -1), pad(folds[1], items, -1)
        placed.append(
            PaddedLabelSet(pad(found.score, queries, np.inf), pad(found.first, queries, 0), folds)
        )
    return DirectionCounts(
        tuple(placed),
        tuple(Counts(*(full((queries,), 0, jnp.int32) for _ in range(2))) for _ in placed),
        TopK(full((queries, depth), -jnp.inf, dtype), full((queries, depth), -1, jnp.int32)),
    )


def count(
    sides: tuple[DirectionCounts, DirectionCounts],
    tile: jax.Array,
    start: tuple[int, int],
    *,
    sizes: tuple[int, int],
    exclude_self: bool,
    mirrored: bool,
    mesh: Mesh,
) -> tuple[DirectionCounts, DirectionCounts]:
    """Adds one tile of scores to both directions.

    Args:
      sides: counts so far, of the queries and of the items; donated by the caller.
      tile: scores [B, M], with its columns sharded over `mesh`.
      start: position of its first query and its first item.
      sizes: number of queries and of items; rows beyond are padding.
      exclude_self: whether an item is not compared with itself.
      mirrored: whether the tile also represents its transpose, so that its items are also queries
        of the first side.
      mesh: mesh of one axis.
    """
    query, item = map(np.int32, start)
    stop = start[0] + tile.shape[0], start[1] + tile.shape[1]
    on_diagonal = exclude_self and start[0] < stop[1] and start[1] < stop[0]
    if on_diagonal or stop[0] > sizes[0] or stop[1] > sizes[1]:
        tile = _mask(tile, query, item, sizes=sizes, exclude_self=exclude_self)
    forward = _count_side(sides[0], tile, query, item, axis=0, mesh=mesh)
    if mirrored:
        return _count_side(forward, tile, item, query, axis=1, mesh=mesh), sides[1]
    return forward, _count_side(sides[1], tile, item, query, axis=1, mesh=mesh)


def join(side: DirectionCounts, mesh: Mesh) -> tuple[list[Counts], TopK]:
    """Returns the counts [Q] and lists [Q, depth] of all devices together, on the host.

    In a list, the smaller of two positions with equal scores comes first.
    """
    counts, (scores, items) = to_host((side.counts, side.top), mesh)
    counts = [Counts(*(each.sum(axis=0) for each in one)) for one in counts]
    if len(scores) == 1:
        return counts, TopK(scores[0], items[0])
    depth = scores.shape[2]
    scores, items = np.concatenate(scores, axis=1), np.concatenate(items, axis=1)
    at = np.lexsort((items, -scores), axis=1)[:, :depth]
    scores, items = (np.take_along_axis(each, at, axis=1) for each in (scores, items))
    return counts, TopK(scores, items)


@functools.partial(jax.jit, static_argnames=("sizes", "exclude_self"))
def _mask(
    tile: jax.Array,
    query: jax.Array,
    item: jax.Array,
    *,
    sizes: tuple[int, int],
    exclude_self: bool,
) -> jax.Array:
    """The tile without padding and, on request, without self-comparisons."""
    queries = query + jnp.arange(tile.shape[0], dtype=jnp.int32)[:, None]
    items = item + jnp.arange(tile.shape[1], dtype=jnp.int32)[None]
    competes = (queries < sizes[0]) & (items < sizes[1])
    if exclude_self:
        competes &= queries != items
    return jnp.where(competes, tile, -jnp.inf)


def _count_side(
    side: DirectionCounts,
    tile: jax.Array,
    query: np.int32,
    item: np.int32,
    *,
    axis: int,
    mesh: Mesh,
) -> DirectionCounts:
    """Adds a tile to one direction, whose queries are along `axis`, starting at `query`."""
    start = query, item
    counts = side.counts
    if counts:
        counts = _count_label_sets(counts, side.label_sets, tile, start, axis=axis, mesh=mesh)
    top = side.top
    if top.scores.shape[2]:
        top = _merge(top, tile, start, axis=axis, mesh=mesh)
    return DirectionCounts(side.label_sets, counts, top)


def _on_every_device(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a compiled `function` of a tile in which every device handles its own columns.

    Its first argument, donated by the caller, is a tree of arrays with one row per device.
    """

    @functools.partial(jax.jit, static_argnames=("axis", "mesh"), donate_argnums=0)
    def run(so_far: Any, *arguments: Any, axis: int, mesh: Mesh) -> Any:
        *constant, tile, (query, item) = arguments

        def on_one(so_far: Any, constant: Any, tile: jax.Array, start: Any) -> Any:
            query, item = start
            before = jax.lax.axis_index(BATCH_AXIS) * tile.shape[1]
            start = (query, item + before) if axis == 0 else (query + before, item)
            so_far = jax.tree.map(lambda x: x[0], so_far)
            found = function(so_far, *constant, tile, start, axis=axis)
            return jax.tree.map(lambda x: x[None], found)

        spread = jax.shard_map(
            on_one,
            mesh=mesh,
            in_specs=(P(BATCH_AXIS), P(), P(None, BATCH_AXIS), P()),
            out_specs=P(BATCH_AXIS),
        )
        return spread(so_far, constant, tile, (query, item))

    return run


@_on_every_device
def _count_label_sets(
    counts: tuple[Counts, ...],
    label_sets: tuple[PaddedLabelSet, ...],
    tile: jax.Array,
    start: tuple[jax.Array, jax.Array],
    *,
    axis: int,
) -> tuple[Counts, ...]:
    """Adds the columns of one device, which start at `start`, to its counts of all label sets."""
    return tuple(
        _count_label_set(each, placed, tile, start, axis)
        for each, placed in zip(counts, label_sets, strict=True)
    )


def _count_label_set(
    counts: Counts,
    placed: PaddedLabelSet,
    tile: jax.Array,
    start: tuple[jax.Array, jax.Array],
    axis: int,
) -> Counts:
    query, item = start
    num_queries, num_items = tile.shape[axis], tile.shape[1 - axis]

    def rows_of(values: jax.Array) -> jax.Array:
        return jax.lax.dynamic_slice_in_dim(values, query, num_queries)

    def by_query(values: jax.Array) -> jax.Array:
        return jnp.expand_dims(rows_of(values), 1 - axis)

    def by_item(values: jax.Array) -> jax.Array:
        return jnp.expand_dims(values, axis)

    def add(values: jax.Array, counts: jax.Array) -> jax.Array:
        return jax.lax.dynamic_update_slice_in_dim(values, rows_of(values) + counts, query, 0)

    best, first = by_query(placed.best), by_query(placed.first)
    positions = item + jnp.arange(num_items, dtype=jnp.int32)
    if placed.folds is not None:
        own = by_query(placed.folds[0])
        folds = jax.lax.dynamic_slice_in_dim(placed.folds[1], item, num_items)

    def mark(slab: slice) -> jax.Array:
        """Both counts of every pair of a part of the items, in one number."""
        scores = tile[:, slab] if axis == 0 else tile[slab]
        # A tile has at most 2**14 items, see `score_tiles.choose_rows`, or 64 per device.
        equal = jnp.where(by_item(positions[slab]) < first, _EQUAL + 1, _EQUAL)
        marks = jnp.where(scores > best, 1, jnp.where(scores == best, equal, 0))
        if placed.folds is not None:
            marks = jnp.where(own == by_item(folds[slab]), marks, 0)
        return marks

    # On CPUs, XLA writes an array to memory before summing it. Slabs are summed while they are
    # read and only a small part is written, which takes a third of the time.
    width = num_items // _SLABS[1 - axis]
    slabs = (mark(slice(start, start + width)) for start in range(0, num_items, width))
    both = jnp.sum(functools.reduce(operator.add, slabs), axis=1 - axis, dtype=jnp.int32)
    return Counts(add(counts.ahead, both % _EQUAL), add(counts.equal, both // _EQUAL))


@_on_every_device
def _merge(top: TopK, tile: jax.Array, start: tuple[jax.Array, jax.Array], *, axis: int) -> TopK:
    """Merges the columns of one device, which start at `start`, into its lists."""
    query, item = start
    num_queries, num_items = tile.shape[axis], tile.shape[1 - axis]
    old = TopK(*(jax.lax.dynamic_slice_in_dim(each, query, num_queries) for each in top))
    depth = old.scores.shape[1]
    most = max(_FEW, 1 << depth.bit_length())

    def by_query(tile: jax.Array) -> jax.Array:
        tile = tile if axis == 0 else tile.T
        return jnp.where(tile == 0, 0.0, tile)  # By its bits, -0.0 is smaller than 0.0 for top_k.

    def merge_all(tile: jax.Array) -> TopK:
        items = item + jnp.arange(num_items, dtype=jnp.int32)
        return _join_lists(old, TopK(by_query(tile), items[None]))

    def merge_few(tile: jax.Array) -> TopK:
        at = find_entrants(entrants, most)
        scores = jnp.take_along_axis(by_query(tile), at, axis=1)
        exists = jnp.arange(most) < entrants.number[:, None]
        return _join_lists(old, TopK(jnp.where(exists, scores, -jnp.inf), item + at))

    if most < num_items:
        entrants = mark_entrants(by_query(tile), old.scores[:, -1:])
        new = jax.lax.cond(jnp.max(entrants.number) <= most, merge_few, merge_all, tile)
    else:
        new = merge_all(tile)
    return TopK(
        *(
            jax.lax.dynamic_update_slice_in_dim(each, part, query, 0)
            for each, part in zip(top, new, strict=True)
        )
    )


def _join_lists(old: TopK, new: TopK) -> TopK:
    """Lists of the best items [Q, depth] of `old` lists and of later items, in ascending order."""
    depth = old.scores.shape[1]
    # top_k keeps the order of equal scores.
    scores, at = jax.lax.top_k(jnp.concatenate([old.scores, new.scores], axis=1), depth)
    earlier = jnp.take_along_axis(old.items, jnp.minimum(at, depth - 1), axis=1)
    later = jnp.take_along_axis(new.items, jnp.maximum(at - depth, 0), axis=1)
    return TopK(scores, jnp.where(scores == -jnp.inf, -1, jnp.where(at < depth, earlier, later)))
