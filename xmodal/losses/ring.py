"""The ring engine: rows stay on their device, columns travel from device to device.

Every device folds its own rows with the columns that visit it, in blocks of `chunk_size` columns,
and sends the columns on together with their states. The backward pass goes the same way round in
reverse and recomputes the logits block by block; only the states before each block are kept. So a
device never holds more embeddings than its own and its visitors', in both passes.
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec

from xmodal.losses.blocks import Items, Job, Weights, empty_states, fold_block, merge
from xmodal.losses.terms import State
from xmodal.losses.tiles import join, split
from xmodal.mesh import BATCH_AXIS


@dataclasses.dataclass(frozen=True)
class _Ring:
    job: Job
    devices: int

    def send(self, tree: Any, step: int) -> Any:
        """Moves a tree of arrays to the device `step` places further on."""
        places = [(i, (i + step) % self.devices) for i in range(self.devices)]
        return jax.lax.ppermute(tree, BATCH_AXIS, places)

    def split(self, columns: Any) -> Any:
        size = jax.tree.leaves(columns)[0].shape[0]
        return split(columns, min(self.job.chunk_size, size))


def fold_ring(
    job: Job, rows: Items, columns: Items, params: Any, mesh: Mesh
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

    def on_one_device(rows: Items, columns: Items, params: Any) -> tuple[State, State]:
        # Every device adds its own part to the gradient of the parameters.
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
    rows: Items,
    block: Items,
    row_weights: Weights,
    block_weights: Weights,
    params: Any,
    states: tuple[State, State],
) -> tuple[State, State]:
    """Returns the states of rows and of one block of columns after they have met."""
    found = fold_block(job, rows.replace(row_weights), block.replace(block_weights), params)
    return merge(job, states[0], found[0]), merge(job, states[1], found[1])


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _go_round(
    ring: _Ring,
    row_weights: Weights,
    column_weights: Weights,
    params: Any,
    rows: Items,
    columns: Items,
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
    rows: Items,
    columns: Items,
) -> tuple[tuple[State, State], Any]:
    def meet(row_states: State, visit: tuple[Items, State]) -> tuple[State, Any]:
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


def _go_backward(ring: _Ring, saved: Any, cotangents: tuple[State, State]) -> tuple[Any, ...]:
    row_weights, column_weights, params, rows, columns, before = saved

    def meet(carry: Any, visit: Any) -> tuple[Any, Any]:
        row_cotangents, gradient = carry
        block, block_cotangents, block_gradient, states = visit

        def step(*inputs: Any) -> tuple[State, State]:
            return _step(ring.job, rows, block, *inputs)

        _, pull_back = jax.vjp(step, row_weights, block.weights, params, states)
        for_rows, for_block, for_params, (row_cotangents, block_cotangents) = pull_back(
            (row_cotangents, block_cotangents)
        )
        gradient = jax.tree.map(jnp.add, gradient, (for_rows, for_params))
        block_gradient = jax.tree.map(jnp.add, block_gradient, for_block)
        return (row_cotangents, gradient), (block_cotangents, block_gradient)

    def visit(carry: Any, states: tuple[State, State]) -> tuple[Any, None]:
        of_rows, visitors, of_visitors = carry
        visitors, of_visitors = ring.send((visitors, of_visitors), -1)
        of_rows, of_visitors = jax.lax.scan(
            meet, of_rows, (visitors, *of_visitors, states), reverse=True
        )
        return (of_rows, visitors, of_visitors), None

    start = (
        (cotangents[0], _zeros_like((row_weights, params))),
        ring.split(columns),
        (ring.split(cotangents[1]), ring.split(_zeros_like(column_weights))),
    )
    carry, _ = jax.lax.scan(visit, start, before, reverse=True)
    (_, (for_rows, for_params)), _, (_, for_columns) = carry
    return for_rows, join(for_columns, columns.ids.shape[0]), for_params, None, None


_go_round.defvjp(_go_forward, _go_backward)
