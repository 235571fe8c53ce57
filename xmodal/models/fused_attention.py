"""Attention that never writes its weights to memory, by a kernel of cuDNN.

Only NVIDIA GPUs have it. On CPUs, and compiled for TPU v3 and v5e, no fused form was better than
the products of `attention.attend` in training (`tests/benchmarks/README.md`), which they keep.
"""

from collections.abc import Mapping
from typing import Any, Literal

import jax
import jax.numpy as jnp

from xmodal.base.config import UserError

EINSUM, CUDNN = "einsum", "cudnn"
ATTENTIONS = (EINSUM, CUDNN)
"""Kinds of attention in the layers of a transformer: `attention.attend`, `attend_fused`."""

GPU = "gpu"
# Of all GPUs that have the kernel; JAX allows twice the width from Hopper on.
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


def choose(where: str, config: Any, platform: str) -> str:
    """Returns the attention of an encoder on a platform: one trained on GPUs works on others.

    Args:
      where: the encoder's section as a user writes it.
      config: the encoder's settings, with `attention`, `dtype`, `width` and `heads`.
      platform: platform of the devices, see `Devices`.

    Raises:
      UserError: the kernel cannot compute in the encoder's dtype or has no heads of its width.
    """
    if config.attention == EINSUM:
        return EINSUM
    if config.dtype != "bfloat16":
        raise UserError(
            f"{where}.attention={CUDNN!r} needs {where}.dtype='bfloat16', and it is "
            f"{config.dtype!r}; set that, or attention={EINSUM!r}."
        )
    if (width := config.width / config.heads) % _MULTIPLE or width > _WIDEST:
        raise UserError(
            f"{where}.attention={CUDNN!r} needs heads whose width is a multiple of {_MULTIPLE} and "
            f"at most {_WIDEST}; width={config.width} and heads={config.heads} make {width:g}. "
            f"Set {where}.attention={EINSUM!r}."
        )
    return CUDNN if platform == GPU else EINSUM


def check_platform(where: str, encoder: Mapping[str, Any], platform: str) -> None:
    """Raises an error if a run would train with a kernel that its devices lack.

    Args:
      where: the encoder's section as a user writes it.
      encoder: that section.
      platform: platform of the devices, see `Devices`.

    Raises:
      UserError: names the setting to use instead.
    """
    if encoder.get("attention", EINSUM) == CUDNN and platform != GPU:
        raise UserError(
            f"{where}.attention={CUDNN!r} is a kernel of NVIDIA GPUs, and the run's devices are "
            f"of the platform {platform!r}; set it to {EINSUM!r}."
        )
