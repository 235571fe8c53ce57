"""The device mesh and the placement of arrays on it."""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec


def make_mesh(devices: Sequence[jax.Device] | None = None, fsdp: int = 1) -> Mesh:
    """Makes the mesh of all given devices (default: all).

    Its axis is called `data`. With `fsdp` > 1, a second axis, `fsdp`, has that many devices.
    Batches are split over all devices by rows, and each process has consecutive rows.
    """
    # `jax.make_mesh` mixes the processes of some TPU slices, and refuses some axes.
    devices = jax.devices() if devices is None else devices
    ordered = np.array(sorted(devices, key=lambda device: device.process_index))
    axes = {"data": len(devices) // fsdp} | ({"fsdp": fsdp} if fsdp > 1 else {})
    # The compiler places intermediate values; embedding look-ups refuse explicit axes.
    types = (jax.sharding.AxisType.Auto,) * len(axes)
    return Mesh(ordered.reshape(*axes.values()), tuple(axes), types)


def replicated(mesh: Mesh) -> NamedSharding:
    """A full copy on every device."""
    return NamedSharding(mesh, PartitionSpec())


def batch_sharded(mesh: Mesh) -> NamedSharding:
    """The leading dimension split over the devices."""
    return NamedSharding(mesh, PartitionSpec(mesh.axis_names))


def split_rows(tree: Any, mesh: Mesh | None) -> Any:
    """Returns arrays split over the devices by rows, inside `jit`; unchanged without a mesh."""
    return tree if mesh is None else jax.lax.with_sharding_constraint(tree, batch_sharded(mesh))


def global_batch(batch: Any, mesh: Mesh) -> Any:
    """Joins every process's rows of a tree into global arrays, split over the mesh by rows."""
    join = functools.partial(jax.make_array_from_process_local_data, batch_sharded(mesh))
    arrays = jax.tree.map(join, batch)
    if mesh.devices.flat[0].platform == "cpu":  # See `reused_memory.compute_in_caller`.
        jax.block_until_ready(arrays)
    return arrays


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


def put(array: np.ndarray | np.generic, sharding: jax.sharding.Sharding) -> jax.Array:
    """Puts an array that every process has on the devices.

    Over several processes, `jax.device_put` compares the arrays of all of them, with a collective
    that waits for the steps under way.
    """
    return jax.make_array_from_callback(array.shape, sharding, lambda at: np.asarray(array)[at])
