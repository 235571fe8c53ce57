"""Attention over the real tokens of an item, or over those up to each token."""

from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp

from xmodal.base.config import UserError

KEPT = "intermediates"
"""Flax's collection for values beside the result, which exists only where a caller asks for it."""


def split_heads(x: jax.Array, heads: int) -> jax.Array:
    """Returns [N, T, W] as [N, T, heads, W / heads]."""
    if x.shape[-1] % heads:
        raise UserError(
            f"An attention layer of config.model has width={x.shape[-1]}, not a multiple of its "
            f"heads={heads}."
        )
    return x.reshape(*x.shape[:-1], heads, -1)


def keeps_weights(module: nn.Module) -> bool:
    """Returns whether a caller asks for the weights of a module, see `keep_weights`."""
    return module.is_mutable_collection(KEPT)


def keep_weights(module: nn.Module, weights: jax.Array) -> jax.Array:
    """Returns attention weights [N, H, Q, T] unchanged, and keeps those of the first query.

    `Tower.attend` reads them, as the mean over heads, `attention` [N, T] of the module.
    """
    if keeps_weights(module):
        first = jnp.mean(weights[:, :, 0], axis=1, dtype=jnp.float32)
        module.sow(KEPT, "attention", first, init_fn=lambda: None, reduce_fn=lambda _, new: new)
    return weights


def attend(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    mask: jax.Array | None,
    transform: Callable[[jax.Array], jax.Array] | None = None,
    *,
    causal: bool = False,
) -> jax.Array:
    """Returns scaled dot-product attention, with the softmax in float32.

    Args:
      query: [N, Q, H, D].
      key: [N, T, H, D].
      value: [N, T, H, D].
      mask: bool [N, T], True for the tokens that may be attended to; None if all may be.
      transform: function of the attention weights [N, H, Q, T], such as dropout. Without one, the
        outputs are divided by the sums of the weights, which reads and writes [N, H, Q, T] less.
      causal: whether query i attends only to the tokens 0 to i.

    Returns:
      [N, Q, H * D] in the dtype of `value`.
    """
    logits = jnp.einsum("nqhd,nthd->nhqt", query, key, preferred_element_type=jnp.float32)
    # Finite, so that an item without real tokens (a row of padding) does not give NaN.
    lowest = jnp.finfo(jnp.float32).min
    if mask is not None:
        logits = jnp.where(mask[:, None, None, :], logits, lowest)
    if causal:
        logits = jnp.where(jnp.tri(logits.shape[-2], logits.shape[-1], dtype=bool), logits, lowest)
    scale = query.shape[-1] ** -0.5
    if transform is not None:
        weights = jax.nn.softmax(logits * scale).astype(value.dtype)
        outputs = jnp.einsum("nhqt,nthd->nqhd", transform(weights), value)
        return outputs.reshape(*outputs.shape[:2], -1)
    highest = jax.lax.stop_gradient(jnp.max(logits, axis=-1, keepdims=True))
    weights = jnp.exp((logits - highest) * scale)
    sums = jnp.sum(weights, axis=-1, keepdims=True)
    # Heads stay first: writing tokens first would slow the product down.
    outputs = jnp.einsum("nhqt,nthd->nhqd", weights.astype(value.dtype), value)
    outputs = (outputs / sums).astype(value.dtype).swapaxes(1, 2)
    return outputs.reshape(*outputs.shape[:2], -1)
