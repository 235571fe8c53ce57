"""Parts of a batch, of which one is in memory at a time."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from xmodal.core import mesh as mesh_lib


def map_in_parts(
    function: Callable[[Any, jax.Array], Any], items: Any, *, steps: int, mesh: Mesh
) -> Any:
    """Returns the rows of a function for all items, with one part in memory at a time.

    Args:
      function: (items of a part, its number uint32) -> tree of arrays with a row per item.
      items: tree of arrays [B, ...]; see `split`.
      steps: number of parts.
      mesh: devices that the batch is split over.
    """

    @functools.partial(jax.checkpoint, prevent_cse=False)
    def compute(part: tuple[jax.Array, Any]) -> Any:
        number, own = part
        return function(own, number)

    numbers = jnp.arange(steps, dtype=jnp.uint32)
    return join(jax.lax.map(compute, (numbers, split(items, steps, mesh))), mesh)


def split(items: Any, steps: int, mesh: Mesh) -> Any:
    """Returns arrays [B, ...] as [steps, B / steps, ...], without moving items between devices.

    Part j has the items j, j + steps, j + 2 steps, ...: every device splits its own items, and the
    parts are the same on any number of devices.
    """
    sharding = NamedSharding(mesh, PartitionSpec(None, mesh_lib.BATCH_AXIS))

    def split_column(column: jax.Array) -> jax.Array:
        parts = column.reshape(len(column) // steps, steps, *column.shape[1:]).swapaxes(0, 1)
        return jax.lax.with_sharding_constraint(parts, sharding)

    return jax.tree.map(split_column, items)


def join(parts: Any, mesh: Mesh) -> Any:
    """Returns arrays [steps, B / steps, ...] as [B, ...], the opposite of `split`."""

    def join_column(column: jax.Array) -> jax.Array:
        count, items, *rest = column.shape
        return mesh_lib.split_rows(column.swapaxes(0, 1).reshape(count * items, *rest), mesh)

    return jax.tree.map(join_column, parts)
