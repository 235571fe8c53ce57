"""The ring engine: rows stay on their device, columns travel from device to device.

Every device folds its own rows with the columns that visit it, in blocks of `chunk_size` columns,
and sends the columns on together with their states. The backward pass traverses the ring
in reverse and recomputes the logits block by block; only the states before each block are kept. So
in both passes, a device never holds more embeddings than its own and its visitors'.
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec

from xmodal.base.mesh import BATCH_AXIS
from xmodal.losses.blocks import BlockItems, Job, Weights, empty_states, fold_block, merge
from xmodal.losses.terms import State
from xmodal.similarity.tiles import join, split


@dataclasses.dataclass(frozen=True)
class _Ring:
    job: Job
    devices: int

    def send(self, tree: Any, step: int) -> Any:
        """Moves a tree of arrays `step` devices further."""
        places = [(i, (i + step) % self.devices) for i in range(self.devices)]
        return jax.lax.ppermute(tree, BATCH_AXIS, places)

    def split(self, columns: Any) -> Any:
        size = jax.tree.leaves(columns)[0].shape[0]
        return split(columns, min(self.job.chunk_size, size))


def fold_ring(
    job: Job, rows: BlockItems, columns: BlockItems, params: Any, mesh: Mesh
) -> tuple[State, State]:
    """Returns name -> state of each row, and name -> state of each column, all [B].

    Args:
      job: how blocks are folded.
      rows: items, batch-sharded over `mesh`.
      columns: as many items.
      params: replicated arrays for `job.logits`.
      mesh: device mesh whose size divides B.
    """
    ring = _Ring(job, mesh.shape[BATCH_AXIS])

    def on_one_device(rows: BlockItems, columns: BlockItems, params: Any) -> tuple[State, State]:
        # Every device adds its part to the gradient of the parameters.
        params = _varying(params)
        return _go_round(ring, rows.weights, columns.weights, params, rows, columns)

    sharded, whole = PartitionSpec(BATCH_AXIS), PartitionSpec()
    run = jax.shard_map(
        on_one_device, mesh=mesh, in_specs=(sharded, sharded, whole), out_specs=sharded
    )
    return run(rows, columns, params)


def _varying(tree: Any) -> Any:
    """Marks equal copies on all devices as values that may differ."""
    return jax.tree.map(lambda x: jax.lax.pcast(x, BATCH_AXIS, to="varying"), tree)


def _zeros_like(tree: Any) -> Any:
    return _varying(jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), tree))


def _step(
    job: Job,
    rows: BlockItems,
    block: BlockItems,
    row_weights: Weights,
    block_weights: Weights,
    params: Any,
    states: tuple[State, State],
) -> tuple[State, State]:
    """Returns the states of rows and of one block of columns after folding both."""
    found = fold_block(job, rows.replace(row_weights), block.replace(block_weights), params)
    return merge(job, states[0], found[0]), merge(job, states[1], found[1])


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _go_round(
    ring: _Ring,
    row_weights: Weights,
    column_weights: Weights,
    params: Any,
    rows: BlockItems,
    columns: BlockItems,
) -> tuple[State, State]:
    """Returns the states of one device's rows and columns after a complete round.

    `row_weights` and `column_weights` get the gradient; they are parts of `rows` and `columns`.
    """
    return _go_forward(ring, row_weights, column_weights, params, rows, columns)[0]


def _go_forward(
    ring: _Ring,
    row_weights: Weights,
    column_weights: Weights,
    params: Any,
    rows: BlockItems,
    columns: BlockItems,
) -> tuple[tuple[State, State], Any]:
    def meet(row_states: State, visit: tuple[BlockItems, State]) -> tuple[State, Any]:
        block, block_states = visit
        before = (row_states, block_states)
        after = _step(ring.job, rows, block, row_weights, block.weights, params, before)
        return after[0], (after[1], before)

    def visit(carry: Any, _: None) -> tuple[Any, Any]:
        row_states, visitors, visitor_states = carry
        row_states, (visitor_states, before) = jax.lax.scan(
            meet, row_states, (visitors, visitor_states)
        )
        return (row_states, *ring.send((visitors, visitor_states), 1)), before

    start = (
        _varying(empty_states(ring.job, rows)),
        ring.split(columns),
        ring.split(_varying(empty_states(ring.job, columns))),
    )
    (row_states, _, column_states), before = jax.lax.scan(visit, start, length=ring.devices)
    result = row_states, join(column_states, columns.ids.shape[0])
    return result, (row_weights, column_weights, params, rows, columns, before)


class _OfRows(NamedTuple):
    """Of one device's rows: cotangents of their states, and the gradients so far."""

    cotangents: State
    weights: Weights
    params: Any


class _Visitors(NamedTuple):
    """Blocks of columns, with cotangents of their states and the gradients so far."""

    blocks: BlockItems
    cotangents: State
    weights: Weights


def _go_backward(ring: _Ring, saved: Any, cotangents: tuple[State, State]) -> tuple[Any, ...]:
    row_weights, column_weights, params, rows, columns, before = saved

    def meet(of_rows: _OfRows, visit: tuple[_Visitors, Any]) -> tuple[_OfRows, Any]:
        """Undoes `_step` of the rows and one block, given the states before it."""
        visitor, states = visit

        def step(*inputs: Any) -> tuple[State, State]:
            return _step(ring.job, rows, visitor.blocks, *inputs)

        _, vjp = jax.vjp(step, row_weights, visitor.blocks.weights, params, states)
        for_rows, for_block, for_params, (row_cotangents, block_cotangents) = vjp(
            (of_rows.cotangents, visitor.cotangents)
        )
        sums = (of_rows.weights, of_rows.params)
        sums = jax.tree.map(jnp.add, sums, (for_rows, for_params))
        block_sum = jax.tree.map(jnp.add, visitor.weights, for_block)
        return _OfRows(row_cotangents, *sums), (block_cotangents, block_sum)

    def visit(carry: tuple[_OfRows, _Visitors], states: Any) -> tuple[Any, None]:
        of_rows, visitors = carry
        visitors = ring.send(visitors, -1)
        of_rows, of_blocks = jax.lax.scan(meet, of_rows, (visitors, states), reverse=True)
        return (of_rows, _Visitors(visitors.blocks, *of_blocks)), None

    of_rows = _OfRows(cotangents[0], *_zeros_like((row_weights, params)))
    visitors = _Visitors(
        ring.split(columns), ring.split(cotangents[1]), ring.split(_zeros_like(column_weights))
    )
    (of_rows, visitors), _ = jax.lax.scan(visit, (of_rows, visitors), before, reverse=True)
    for_columns = join(visitors.weights, columns.ids.shape[0])
    return of_rows.weights, for_columns, of_rows.params, None, None


_go_round.defvjp(_go_forward, _go_backward)
