"""The chunked engine: scores tile by tile, recomputed in the backward pass.

Reductions of a tile do not depend on other tiles. They are stored, one number per item and tile,
and merged afterwards; so the backward pass knows the gradient of every tile in advance, and holds
only that tile and the gradient of all items, to which it adds in place.
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from xmodal.base.mesh import replicated
from xmodal.losses.blocks import BlockItems, Job, Weights, fold_block, merge
from xmodal.losses.terms import State
from xmodal.similarity.tiles import add_at, choose_size, join, pad, take


@dataclasses.dataclass(frozen=True)
class _Grid:
    """The tiles of all pairs.

    Attributes:
      job: how a tile is folded.
      rows: rows of a tile.
      columns: columns of a tile.
    """

    job: Job
    rows: int
    columns: int


def fold_chunked(
    job: Job, rows: BlockItems, columns: BlockItems, params: Any, mesh: Mesh | None
) -> tuple[State, State]:
    """Returns name -> state of each row, and name -> state of each column.

    Args:
      job: how tiles are folded; a tile has at most `chunk_size` rows and columns.
      rows: B items. If `mesh` shards them over devices, they stay there: a tile has all rows.
      columns: M items.
      params: arrays for `job.logits`.
      mesh: device mesh, or None.
    """
    sizes = rows.ids.shape[0], columns.ids.shape[0]
    height, width = (choose_size(size, job.chunk_size) for size in sizes)
    if mesh is not None and mesh.size > 1:
        height = sizes[0]
        # Once, since a tile cut from columns on all devices would be gathered on every visit.
        columns = jax.lax.with_sharding_constraint(columns, replicated(mesh))
    grid = _Grid(job, height, width)
    rows, columns = pad(rows, grid.rows), pad(columns, grid.columns)
    row_states, column_states = _fold_tiles(grid, rows, columns, params)
    row_states = jax.tree.map(lambda x: x.swapaxes(0, 1), row_states)
    return (
        join(_merge_all(job, row_states), sizes[0]),
        join(_merge_all(job, column_states), sizes[1]),
    )


def _merge_all(job: Job, states: State) -> State:
    """Merges states [N, tiles, b] of the same items over N tiles into [tiles, b]."""
    first, others = (jax.tree.map(lambda x, at=at: x[at], states) for at in (0, slice(1, None)))
    merged, _ = jax.lax.scan(lambda found, each: (merge(job, found, each), None), first, others)
    return merged


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _fold_tiles(
    grid: _Grid, rows: BlockItems, columns: BlockItems, params: Any
) -> tuple[State, State]:
    """Returns the states of the rows and of the columns of I x J tiles, [I, J, b] each."""

    def fold_rows(i: jax.Array) -> tuple[State, State]:
        row = take(rows, i, grid.rows)

        def fold_tile(j: jax.Array) -> tuple[State, State]:
            return fold_block(grid.job, row, take(columns, j, grid.columns), params)

        return jax.lax.map(fold_tile, jnp.arange(columns.ids.shape[0] // grid.columns))

    return jax.lax.map(fold_rows, jnp.arange(rows.ids.shape[0] // grid.rows))


def _forward(grid: _Grid, *inputs: Any) -> tuple[tuple[State, State], Any]:
    return _fold_tiles(grid, *inputs), inputs


class _Gradients(NamedTuple):
    """Sums so far, rows last: in this order, XLA adds to both gradients in place."""

    columns: Weights
    params: Any
    rows: Weights


def _backward(grid: _Grid, saved: Any, cotangents: tuple[State, State]) -> tuple[Any, ...]:
    """Folds every tile again and accumulates the gradients of its inputs:

    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            gradients of row, column and params += vjp(fold_block, row, column, params)(i, j)
    """
    rows, columns, params = saved

    def visit_rows(sums: _Gradients, visit: Any) -> tuple[_Gradients, None]:
        i, cotangents_of_tiles = visit
        row = take(rows, i, grid.rows)

        def visit_tile(sums: _Gradients, visit: Any) -> tuple[_Gradients, None]:
            j, cotangents_of_tile = visit
            column = take(columns, j, grid.columns)

            def fold_tile(row_weights: Weights, column_weights: Weights, params: Any) -> Any:
                return fold_block(
                    grid.job, row.replace(row_weights), column.replace(column_weights), params
                )

            _, vjp = jax.vjp(fold_tile, row.weights, column.weights, params)
            for_row, for_column, for_params = vjp(cotangents_of_tile)
            sums = _Gradients(
                add_at(sums.columns, j, for_column),
                *jax.tree.map(jnp.add, (sums.params, sums.rows), (for_params, for_row)),
            )
            return sums, None

        # Within these rows, `rows` is the gradient of only these rows.
        start = sums._replace(rows=_zeros_like(row.weights))
        numbers = jnp.arange(columns.ids.shape[0] // grid.columns)
        found, _ = jax.lax.scan(visit_tile, start, (numbers, cotangents_of_tiles))
        return found._replace(rows=add_at(sums.rows, i, found.rows)), None

    start = _Gradients(*_zeros_like((columns.weights, params, rows.weights)))
    numbers = jnp.arange(rows.ids.shape[0] // grid.rows)
    found, _ = jax.lax.scan(visit_rows, start, (numbers, cotangents))
    return _gradient_of(found.rows), _gradient_of(found.columns), found.params


def _gradient_of(weights: Weights) -> BlockItems:
    """The gradient of items; None for their ids and the mask of real items."""
    none: Any = None
    return BlockItems(*weights, ids=none, real=none)


def _zeros_like(tree: Any) -> Any:
    return jax.tree.map(jnp.zeros_like, tree)


_fold_tiles.defvjp(_forward, _backward)
