"""The engines `chunked` and `ring`: scores tile by tile, recomputed in the backward pass.

Every device reduces its own rows. With `chunked`, it has all columns; with `ring`, it starts with
its own columns and passes them on to the next device, until those of all devices have visited it.

Reductions of a tile do not depend on other tiles. They are stored, one number per item and tile,
and merged afterwards; so the backward pass knows the gradient of every tile in advance, and holds
only that tile and the gradient of all items, to which it adds in place. With `jax.checkpoint`
inside `jax.lax.map`, it would hold this gradient twice, and the ring all columns.
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec

from xmodal.losses.terms import BlockItems, Job, State, Weights, merge, reduce_block
from xmodal.similarity.tiles import add_at, choose_size, pad, take


def reduce_tiles(
    job: Job,
    rows: BlockItems,
    columns: BlockItems,
    params: Any,
    mesh: Mesh | None,
    *,
    is_ring: bool,
) -> tuple[State, State]:
    """Returns name -> state of each row, and name -> state of each column.

    Args:
      job: how tiles are reduced. On several devices, a tile has all rows of a device.
      rows: B items; the devices share them evenly.
      columns: M items, likewise; the ring needs as many as rows.
      params: arrays for `job.logits`.
      mesh: device mesh, or None.
      is_ring: whether columns visit one device after the other; else every device gathers them.
    """
    devices, axes = (1, ()) if mesh is None else (mesh.size, mesh.axis_names)

    def reduce_all(rows: BlockItems, columns: BlockItems, params: Any) -> tuple[State, State]:
        if not is_ring:
            columns = jax.lax.all_gather(columns, axes, tiled=True)
        visits = devices if is_ring else 1
        found, states = _reduce(
            job, rows, columns, params, height=rows.ids.shape[0], visits=visits, axes=axes
        )
        states = jax.tree.map(lambda x: x.reshape(devices, -1), states)
        if is_ring:  # On visit v, device d has the columns of device d - v.
            order = (jax.lax.axis_index(axes) - jnp.arange(devices)) % devices
            states = jax.tree.map(lambda x: x[order], states)
        # Each device gets the states of its own columns from all devices.
        return found, merge(job, jax.lax.all_to_all(states, axes, 0, 0))

    if devices == 1:
        found, states = _reduce(job, rows, columns, params)
        return found, merge(job, states)
    sharded, whole = PartitionSpec(axes), PartitionSpec()
    run = jax.shard_map(
        reduce_all,
        mesh=mesh,
        in_specs=(sharded, sharded, whole),
        out_specs=sharded,
        check_vma=False,  # The gradient of whole arrays is summed over the devices.
    )
    return run(rows, columns, params)


def _reduce(
    job: Job,
    rows: BlockItems,
    columns: BlockItems,
    params: Any,
    *,
    height: int | None = None,
    visits: int = 1,
    axes: tuple[str, ...] = (),
) -> tuple[State, State]:
    """Reduces the N rows of a device with M columns that visit it, first its own, then others'.

    Returns:
      name -> state of each row, [N], and name -> state of each column at every visit, [visits, M].
    """
    sizes = rows.ids.shape[0], columns.ids.shape[0]
    height = height or choose_size(sizes[0], job.chunk_size)
    width = choose_size(sizes[1], job.chunk_size)
    rows, columns = pad(rows, height), pad(columns, width)
    down, across = rows.ids.shape[0] // height, columns.ids.shape[0] // width
    grid = _Grid(job, height, width, down, across, visits, axes)
    row_states, column_states = _reduce_grid(grid, rows, columns, params)

    def merge_rows(x: jax.Array) -> jax.Array:
        return x.reshape(visits, down, across, -1).swapaxes(1, 2).reshape(visits * across, -1)

    row_states = jax.tree.map(merge_rows, row_states)
    column_states = jax.tree.map(
        lambda x: x.reshape(visits, down, -1).swapaxes(0, 1), column_states
    )
    row_states, column_states = merge(job, row_states), merge(job, column_states)
    return (
        jax.tree.map(lambda x: x[: sizes[0]], row_states),
        jax.tree.map(lambda x: x[:, : sizes[1]], column_states),
    )


@dataclasses.dataclass(frozen=True)
class _Grid:
    """The tiles of one device.

    Attributes:
      job: how a tile is reduced.
      height: rows of a tile.
      width: columns of a tile.
      down: tiles along the rows.
      across: tiles along the columns.
      visits: number of devices whose columns visit this one, including itself.
      axes: axes of the mesh, over which columns visit.
    """

    job: Job
    height: int
    width: int
    down: int
    across: int
    visits: int
    axes: tuple[str, ...]

    def cut(
        self, tile: jax.Array, rows: BlockItems, columns: BlockItems
    ) -> tuple[BlockItems, BlockItems]:
        """Returns the rows and columns of a tile."""
        row = take(rows, tile // self.across, self.height)
        return row, take(columns, tile % self.across, self.width)

    def pass_on(self, tree: Any) -> Any:
        """Moves arrays to the next device."""
        if self.visits == 1:
            return tree
        places = [(i, (i + 1) % self.visits) for i in range(self.visits)]
        return jax.lax.ppermute(tree, self.axes, places)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _reduce_grid(
    grid: _Grid, rows: BlockItems, columns: BlockItems, params: Any
) -> tuple[State, State]:
    """Returns the states of the rows and of the columns of all tiles, [visits, tiles, b] each."""

    def visit(columns: BlockItems, _: None) -> tuple[BlockItems, tuple[State, State]]:
        def reduce_tile(tile: jax.Array) -> tuple[State, State]:
            return reduce_block(grid.job, *grid.cut(tile, rows, columns), params)

        tiles = jnp.arange(grid.down * grid.across)
        return grid.pass_on(columns), jax.lax.map(reduce_tile, tiles)

    return jax.lax.scan(visit, columns, length=grid.visits)[1]


def _backward(grid: _Grid, saved: Any, cotangents: tuple[State, State]) -> tuple[Any, ...]:
    """Reduces every tile again and accumulates the gradients of its inputs:

    for columns in visits:
        for row, column in tiles:
            vjp_of_tile = vjp(reduce_block, row, column, params)
            gradients of row, column and params += vjp_of_tile(cotangents)
    """
    rows, columns, params = saved

    def visit(carry: Any, cotangents: Any) -> tuple[Any, None]:
        columns, sums = carry

        def visit_tile(sums: Any, visit: Any) -> tuple[Any, None]:
            tile, cotangents_of_tile = visit
            row, column = grid.cut(tile, rows, columns)

            def reduce_tile(row_weights: Weights, column_weights: Weights, params: Any) -> Any:
                return reduce_block(
                    grid.job, row.replace(row_weights), column.replace(column_weights), params
                )

            _, vjp = jax.vjp(reduce_tile, row.weights, column.weights, params)
            for_row, for_column, for_params = vjp(cotangents_of_tile)
            return (
                add_at(sums[0], tile % grid.across, for_column),
                jax.tree.map(jnp.add, sums[1], for_params),
                add_at(sums[2], tile // grid.across, for_row),
            ), None

        tiles = jnp.arange(grid.down * grid.across)
        (for_columns, *others), _ = jax.lax.scan(visit_tile, sums, (tiles, cotangents))
        columns, for_columns = grid.pass_on((columns, for_columns))
        return (columns, (for_columns, *others)), None

    # Rows last: in this order, XLA adds to the gradients of columns and rows in place.
    zeros = jax.tree.map(jnp.zeros_like, (columns.weights, params, rows.weights))
    (_, found), _ = jax.lax.scan(visit, (columns, zeros), cotangents)
    for_columns, for_params, for_rows = found
    return _gradient_of(for_rows), _gradient_of(for_columns), for_params


def _gradient_of(weights: Weights) -> BlockItems:
    """The gradient of items; None for their ids and the mask of real items."""
    none: Any = None
    return BlockItems(*weights, ids=none, real=none)


_reduce_grid.defvjp(lambda grid, *inputs: (_reduce_grid(grid, *inputs), inputs), _backward)
