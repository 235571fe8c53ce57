"""Cuts arrays into blocks of equal size."""

from typing import Any

import jax
import jax.numpy as jnp


def split(items: Any, chunk_size: int) -> Any:
    """Returns arrays [N, ...] as [blocks, chunk_size, ...], filled up with zeros."""

    def split_leaf(x: jax.Array) -> jax.Array:
        padding = ((0, -x.shape[0] % chunk_size),) + ((0, 0),) * (x.ndim - 1)
        return jnp.pad(x, padding).reshape(-1, chunk_size, *x.shape[1:])

    return jax.tree.map(split_leaf, items)


def join(blocks: Any, size: int) -> Any:
    """Returns arrays [blocks, chunk_size, ...] as [size, ...], without the filling."""
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[:size], blocks)
