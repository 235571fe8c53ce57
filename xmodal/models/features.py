"""The result of an encoder, and hashes of items for random numbers that depend on them."""

import dataclasses
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

OF_PAIRS = ("tags",)
"""The extras that cross-encoders read."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Features:
    """The tokens of N items: words, regions or grid cells, as a pytree.

    Attributes:
      tokens: [N, T, W] in the encoder's compute dtype.
      mask: bool [N, T], True for real tokens, which come first; None if all are real.
      extras: further arrays by name. Recurrent encoders provide `words` [N, T, E], the word
        vectors they read, `state` [N, S], the concatenated final states of all directions, and
        `last` [N, W], the last real token, computed without the others.
        Every head gets `content` uint32 [N, 2], a hash of the item's inputs; see
        `hash_items`. Of texts with token ids it gets `label_ids` int [N, L], the tokens
        that label a text with concepts: its own, or `text_label_ids` of the batch. "region_tokens"
        provides `tags` int32 [N, G], the ids of words about an image, -1 after the last.
    """

    tokens: jax.Array
    mask: jax.Array | None = None
    extras: Mapping[str, jax.Array] = dataclasses.field(default_factory=dict)

    def full_mask(self) -> jax.Array:
        """Returns the mask as bool [N, T], even if all tokens are real."""
        if self.mask is None:
            return jnp.ones(self.tokens.shape[:2], bool)
        return self.mask

    def real_tokens(self) -> jax.Array:
        """Returns the tokens with zeros for the padding."""
        if self.mask is None:
            return self.tokens
        # Selected, not multiplied: a padding token may be NaN.
        return jnp.where(self.mask[..., None], self.tokens, 0)

    def lengths(self) -> jax.Array:
        """Returns the number of real tokens, at least 1, as int32 [N]."""
        return jnp.maximum(jnp.sum(self.full_mask(), axis=1, dtype=jnp.int32), 1)


def take_last(tokens: jax.Array, lengths: jax.Array) -> jax.Array:
    """Returns the last one [N, W] of the first `lengths` tokens [N], at least one, of [N, T, W]."""
    return jnp.take_along_axis(tokens, lengths[:, None, None] - 1, axis=1)[:, 0]


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
