"""Depthwise convolution with TensorFlow's SAME padding, in two implementations of one function.

XLA on CPU runs a grouped convolution several times slower than the same sum written as shifted
products; accelerators have kernels for the grouped form.
"""

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp

from xmodal.models.options import lookup

Depthwise = Callable[[jax.Array, jax.Array, int], jax.Array]


def convolution(x: jax.Array, kernel: jax.Array, stride: int) -> jax.Array:
    """XLA's grouped convolution. x [B,H,W,C], kernel [k,k,C,1] -> [B,ceil(H/s),ceil(W/s),C]."""
    size, _, channels, _ = kernel.shape
    return jax.lax.conv_general_dilated(
        x,
        kernel.reshape(size, size, 1, channels),
        window_strides=(stride, stride),
        padding="SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=channels,
    )


def shifted(x: jax.Array, kernel: jax.Array, stride: int) -> jax.Array:
    """A sum of k * k shifted, strided products in float32; shapes and dtype as `convolution`."""
    size = kernel.shape[0]
    (rows, pad_rows), (columns, pad_columns) = (
        _same_padding(length, size, stride) for length in x.shape[1:3]
    )
    padded = jnp.pad(x, ((0, 0), pad_rows, pad_columns, (0, 0))).astype(jnp.float32)
    weights = kernel[..., 0].astype(jnp.float32)
    total = jnp.zeros((), jnp.float32)
    for i in range(size):
        for j in range(size):
            last_row, last_column = i + (rows - 1) * stride, j + (columns - 1) * stride
            window = padded[:, i : last_row + 1 : stride, j : last_column + 1 : stride]
            total += window * weights[i, j]
    return total.astype(x.dtype)


def _same_padding(length: int, size: int, stride: int) -> tuple[int, tuple[int, int]]:
    """TensorFlow's rule: output length, and zeros before and after (the odd one after)."""
    output = -(-length // stride)
    total = max((output - 1) * stride + size - length, 0)
    return output, (total // 2, total - total // 2)


IMPLEMENTATIONS: Mapping[str, Depthwise] = {"convolution": convolution, "shifted": shifted}


def choose(name: str) -> Depthwise:
    """The implementation called `name`; "auto" is the faster one on the default backend."""
    if name == "auto":
        name = "shifted" if jax.default_backend() == "cpu" else "convolution"
    return lookup(IMPLEMENTATIONS | {"auto": None}, name, "depthwise implementation")
