"""Hashes of items, for random numbers that depend on an item but not on its batch."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

# Odd constants of MurmurHash3 and of the golden ratio.
_GOLDEN, _FIRST, _SECOND = (np.uint32(n) for n in (0x9E3779B9, 0x85EBCA6B, 0xC2B2AE35))
_MASKS = {"image": "image_mask", "image_features": "image_mask", "text_ids": "text_mask",
          "text_features": "text_mask"}  # fmt: skip


def hash_items(inputs: Mapping[str, jax.Array]) -> jax.Array:
    """Returns two hash values of each item that do not depend on other items of the batch.

    They do not depend on padding either: masked positions and trailing zeros of `image` and of
    features are ignored. Float arrays of equal values but different dtype have equal hashes.

    Args:
      inputs: an encoder's input columns, with items first.

    Returns:
      uint32 [N, 2].
    """
    total = jnp.uint32(0)
    for column, mask in _MASKS.items():
        if column in inputs:
            total = total + _hash_column(inputs[column], inputs.get(mask))
    return total


def _hash_column(values: jax.Array, mask: jax.Array | None) -> jax.Array:
    if jnp.issubdtype(values.dtype, jnp.floating):
        floats = values.astype(jnp.float32)
        # Both zeros of IEEE 754 become the integer 0.
        bits = jnp.where(floats == 0, 0, jax.lax.bitcast_convert_type(floats, jnp.uint32))
    else:
        # If a mask marks padding, the id 0 is an id like any other.
        bits = values.astype(jnp.uint32) + (mask is not None)
    if mask is not None:
        bits = jnp.where((mask > 0).reshape(mask.shape + (1,) * (bits.ndim - 2)), bits, 0)
    bits = bits.reshape(bits.shape[0], -1)
    positions = jnp.arange(bits.shape[1], dtype=jnp.uint32) + 1
    lanes = []
    for salt in (np.uint32(0), _GOLDEN):
        mixed = _mix(_mix(bits ^ salt) ^ (positions * _GOLDEN))
        lanes.append(jnp.sum(jnp.where(bits == 0, 0, mixed), axis=1, dtype=jnp.uint32))
    return jnp.stack(lanes, axis=1)


def _mix(x: jax.Array) -> jax.Array:
    """The finalizer of MurmurHash3: every bit of the input affects every bit of the output."""
    x = (x ^ (x >> 16)) * _FIRST
    x = (x ^ (x >> 13)) * _SECOND
    return x ^ (x >> 16)
