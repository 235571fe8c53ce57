"""The result of an encoder."""

import dataclasses
from collections.abc import Mapping

import jax
import jax.numpy as jnp

OF_PAIRS = ("tags",)
"""The extras that pair scorers read."""


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
        `content.hash_items`. Of texts with token ids it gets `label_ids` int [N, L], the tokens
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


def split_summands(vectors: jax.Array) -> jax.Array:
    """Returns three summands [N, 3, W] of float32 vectors [N, W], each exact in bfloat16.

    Records of features are bfloat16. The errors of many rounded tokens average out; that of their
    rounded mean would stay.
    """
    summands = []
    for _ in range(3):
        # Unlike a conversion to bfloat16 and back, XLA never leaves this out.
        summands.append(jax.lax.reduce_precision(vectors, exponent_bits=8, mantissa_bits=7))
        vectors = vectors - summands[-1]
    return jnp.stack(summands, axis=1)


def join_summands(summands: jax.Array) -> jax.Array:
    """Returns the sum of `split_summands`, and of zero rows after them, as tokens [N, 1, W]."""
    return jnp.sum(summands, axis=1, keepdims=True, dtype=jnp.float32)
