"""Cuts arrays into tiles of equal size."""

from typing import Any

import jax
import jax.numpy as jnp


def choose_size(items: int, most: int) -> int:
    """Returns the size of tiles, near `most`, that need the least padding; `items` if one fits."""
    if items <= most:
        return items
    return min(range(most, most // 2, -1), key=lambda size: -items % size)


def pad(items: Any, tile_size: int) -> Any:
    """Returns arrays [N, ...] padded with zeros to whole tiles."""

    def pad_leaf(x: jax.Array) -> jax.Array:
        return jnp.pad(x, ((0, -x.shape[0] % tile_size),) + ((0, 0),) * (x.ndim - 1))

    return jax.tree.map(pad_leaf, items)


def split(items: Any, tile_size: int) -> Any:
    """Returns arrays [N, ...] as [tiles, tile_size, ...], padded with zeros."""
    return jax.tree.map(lambda x: x.reshape(-1, tile_size, *x.shape[1:]), pad(items, tile_size))


def join(tiles: Any, size: int) -> Any:
    """Returns arrays [tiles, tile_size, ...] as [size, ...], without the padding."""
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[:size], tiles)


def take(items: Any, tile: jax.Array, tile_size: int) -> Any:
    """Returns one tile, [tile_size, ...], of arrays of whole tiles."""
    return jax.tree.map(
        lambda x: jax.lax.dynamic_slice_in_dim(x, tile * tile_size, tile_size), items
    )


def add_at(items: Any, tile: jax.Array, values: Any) -> Any:
    """Adds arrays [tile_size, ...] to one tile of arrays; in place within a loop."""

    def add(x: jax.Array, value: jax.Array) -> jax.Array:
        start, size = tile * value.shape[0], value.shape[0]
        old = jax.lax.dynamic_slice_in_dim(x, start, size)
        return jax.lax.dynamic_update_slice_in_dim(x, old + value, start, 0)

    return jax.tree.map(add, items, values)
