"""The device mesh and the placement of arrays on it."""

import functools
import re
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from xmodal.core.errors import UserError
from xmodal.core.tree_paths import path_of

BATCH_AXIS = "data"


def make_mesh(devices: Sequence[jax.Device] | None = None) -> Mesh:
    """Makes the mesh of all given devices (default: all), with one axis called `data`."""
    devices = jax.devices() if devices is None else list(devices)
    return jax.make_mesh(
        (len(devices),),
        (BATCH_AXIS,),
        devices=devices,
        # The compiler places intermediate values; embedding look-ups refuse explicit axes.
        axis_types=(jax.sharding.AxisType.Auto,),
    )


def replicated(mesh: Mesh) -> NamedSharding:
    """A full copy on every device."""
    return NamedSharding(mesh, PartitionSpec())


def batch_sharded(mesh: Mesh) -> NamedSharding:
    """The leading dimension split over the devices."""
    return NamedSharding(mesh, PartitionSpec(BATCH_AXIS))


def split_rows(tree: Any, mesh: Mesh | None) -> Any:
    """Returns arrays split over the devices by rows, inside `jit`; unchanged without a mesh."""
    return tree if mesh is None else jax.lax.with_sharding_constraint(tree, batch_sharded(mesh))


def largest_dimension_sharded(mesh: Mesh, shape: Sequence[int]) -> NamedSharding:
    """Splits the largest dimension that the device count divides; replicates if there is none.

    The rule of fully sharded data parallelism. Tensors under 2**18 elements stay replicated:
    gathering them costs more than they save.
    """
    devices = mesh.shape[BATCH_AXIS]
    divisible = [axis for axis, size in enumerate(shape) if size % devices == 0]
    if not divisible or np.prod(shape) < 2**18:
        return replicated(mesh)
    axis = max(divisible, key=lambda a: shape[a])
    return NamedSharding(mesh, PartitionSpec(*[None] * axis, BATCH_AXIS))


RULES = {
    "replicated": lambda mesh, shape: replicated(mesh),
    "fsdp": largest_dimension_sharded,
}


def tree_shardings(tree: Any, rules: Sequence[tuple[str, str]], mesh: Mesh) -> Any:
    """Returns the sharding of every array of a state.

    Args:
      tree: a pytree of arrays or shapes.
      rules: (regular expression searched in the path `params/text/encoder/...`, key of `RULES`)
        pairs; the first match wins.
      mesh: the device mesh.

    Returns:
      The same tree with `NamedSharding` leaves.
    """

    def choose(keys: tuple[Any, ...], leaf: Any) -> NamedSharding:
        for pattern, rule in rules:
            if re.search(pattern, path_of(keys)):
                return RULES[rule](mesh, leaf.shape)
        raise UserError(
            f"No pattern of config.sharding matches {path_of(keys)!r}; add one; '.*' matches "
            "everything."
        )

    return jax.tree_util.tree_map_with_path(choose, tree)


def global_batch(batch: Any, mesh: Mesh) -> Any:
    """Joins every process's rows of a tree into global arrays, split over the mesh by rows."""
    join = functools.partial(jax.make_array_from_process_local_data, batch_sharded(mesh))
    return jax.tree.map(join, batch)


def pad_rows(array: np.ndarray, rows: int) -> np.ndarray:
    """Returns an array [N, ...] as [rows, ...], so that one shape is compiled.

    It repeats the last row: a row of zeros may be a text without a token.
    """
    padding = [(0, rows - len(array))] + [(0, 0)] * (array.ndim - 1)
    return np.pad(array, padding, mode="edge")


def process_count(mesh: Mesh) -> int:
    """The number of processes with a device of the mesh."""
    return len({device.process_index for device in mesh.devices.flat})


def local_rows(array: jax.Array) -> np.ndarray:
    """This process's rows of an array whose leading dimension is split over the mesh."""
    shards = sorted(array.addressable_shards, key=lambda shard: shard.index[0].start or 0)
    return np.concatenate([np.asarray(shard.data) for shard in shards])


def to_host(tree: Any, mesh: Mesh) -> Any:
    """Complete NumPy arrays in every process; all processes have to call it."""
    if all(leaf.is_fully_addressable for leaf in jax.tree.leaves(tree)):
        # Without a collective: programs that wait for each other may block all threads of a CPU.
        return jax.device_get(tree)
    copies = jax.jit(lambda arrays: arrays, out_shardings=replicated(mesh))(tree)
    return jax.tree.map(lambda leaf: np.asarray(leaf.addressable_data(0)), copies)


def one_copy(tree: Any) -> Any:
    """Returns one device's copy of replicated arrays if a single process has all devices.

    Orbax cuts a replicated array into one part per device and compiles a program for every part of
    every shape: hundreds before the first checkpoint.
    """
    if jax.process_count() > 1:
        return tree
    return jax.tree.map(
        lambda x: x.addressable_data(0) if getattr(x, "is_fully_replicated", False) else x, tree
    )


def put(array: np.ndarray, sharding: jax.sharding.Sharding) -> jax.Array:
    """Puts an array that every process has on the devices.

    Over several processes, `jax.device_put` compares the arrays of all of them, with a collective
    that waits for the steps under way.
    """
    return jax.make_array_from_callback(array.shape, sharding, lambda at: array[at])


def put_step(step: int, mesh: Mesh) -> jax.Array:
    """The step number as an int32 scalar on every device."""
    return put(np.asarray(step, np.int32), replicated(mesh))
