"""Attention over the real tokens of an item, or over those up to each token.

`attend` is the form of all platforms. `attend_fused` never writes the weights to memory, by a
kernel of cuDNN that only NVIDIA GPUs have. On CPUs, and compiled for TPU v3 and v5e, no fused form
was better in training.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

import flax.linen as nn
import jax
import jax.numpy as jnp

from xmodal.core.errors import UserError

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


def project_heads(
    dense: Callable[..., nn.Dense], heads: int, query: jax.Array, key: jax.Array, value: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns query, key and value [N, T, heads, D] of tokens, by three layers of these names."""
    query, key, value = (
        split_heads(dense(name=name)(tokens), heads)
        for name, tokens in (("query", query), ("key", key), ("value", value))
    )
    return query, key, value


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


EINSUM, CUDNN = "einsum", "cudnn"
ATTENTIONS = (EINSUM, CUDNN)
"""Kinds of attention in the layers of a transformer: `attention.attend`, `attend_fused`."""

GPU = "gpu"
# The limit on all GPUs that have the kernel; JAX allows twice the width from Hopper on.
_WIDEST, _MULTIPLE = 128, 8


def attend_fused(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    mask: jax.Array | None,
    *,
    causal: bool = False,
    implementation: Literal["cudnn", "xla"] = "cudnn",
) -> jax.Array:
    """Returns `attention.attend` of tokens to each other, without a transform of the weights.

    The kernel computes logits and softmax in float32 and rounds the weights to the dtype of
    `value`, as `attend` does, but keeps sums over blocks of keys, so the last bits differ.

    Args:
      query: [N, Q, H, D], the first Q tokens; bfloat16 for cuDNN, whose D is a multiple of 8, at
        most 128.
      key: [N, T, H, D].
      value: [N, T, H, D].
      mask: bool [N, T], True for real tokens, which come first; None if all are real. An item
        without any attends to its first token.
      causal: whether token i attends only to the tokens 0 to i.
      implementation: of `jax.nn.dot_product_attention`.

    Returns:
      [N, Q, H * D] in the dtype of `value`.
    """
    count, length = query.shape[1], key.shape[1]
    lengths = None if mask is None else jnp.maximum(jnp.sum(mask, axis=1, dtype=jnp.int32), 1)
    if length % 2 and lengths is None:
        lengths = jnp.full(len(key), length, jnp.int32)
    # JAX refuses gradients of odd lengths: a token that nobody attends to follows.
    query, key, value = (
        jnp.pad(x, ((0, 0), (0, x.shape[1] % 2), (0, 0), (0, 0))) for x in (query, key, value)
    )
    attended = jax.nn.dot_product_attention(
        query, key, value, is_causal=causal, key_value_seq_lengths=lengths,
        implementation=implementation,
    )  # fmt: skip
    return attended[:, :count].reshape(len(value), count, -1)


def choose_attention(where: str, config: Any, platform: str) -> Any:
    """Returns an encoder's settings with the attention of a platform; only GPUs have the kernel.

    Args:
      where: the encoder's section as a user writes it.
      config: the encoder's settings, see `transformer_layers.StackConfig`.
      platform: platform of the devices, see `Devices`.
    """
    if config.attention == EINSUM:
        return config
    width = config.width / config.heads
    if config.dtype != "bfloat16" or width % _MULTIPLE or width > _WIDEST:
        raise UserError(
            f"{where}.attention={CUDNN!r} needs dtype='bfloat16' and heads whose width is a "
            f"multiple of {_MULTIPLE} and at most {_WIDEST}; dtype is {config.dtype!r}, and "
            f"width={config.width} and heads={config.heads} make {width:g}. Change them, or set "
            f"attention={EINSUM!r}."
        )
    return config if platform == GPU else dataclasses.replace(config, attention=EINSUM)
