"""Depthwise convolution with TensorFlow's SAME padding, in two implementations of one function.

XLA on CPU runs a grouped convolution several times slower than the same sum written as shifted
products; accelerators have kernels for the grouped form.
"""

from collections.abc import Callable, Mapping
from functools import partial

import jax
import jax.numpy as jnp

from xmodal.base.config import lookup

Depthwise = Callable[[jax.Array, jax.Array, int], jax.Array]
_MANY_COLUMNS = 64


def convolution(x: jax.Array, kernel: jax.Array, stride: int) -> jax.Array:
    """Returns the grouped convolution of XLA.

    X [B, H, W, C], kernel [k, k, C, 1] -> [B, ceil(H / s), ceil(W / s), C].
    """
    size, _, channels, _ = kernel.shape
    return jax.lax.conv_general_dilated(
        x,
        kernel.reshape(size, size, 1, channels),
        window_strides=(stride, stride),
        padding="SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=channels,
    )


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def shifted(x: jax.Array, kernel: jax.Array, stride: int) -> jax.Array:
    """Returns `convolution` as a sum of k * k shifted, strided products in float32."""
    padded, outputs = _pad_same(x, kernel.shape[0], stride)
    return _sum_windows(padded, kernel, outputs, stride).astype(x.dtype)


def _shifted_forward(
    x: jax.Array, kernel: jax.Array, stride: int
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    return shifted(x, kernel, stride), (x, kernel)


def _shifted_backward(
    stride: int, residuals: tuple[jax.Array, jax.Array], dy: jax.Array
) -> tuple[jax.Array, jax.Array]:
    # Plain autodiff writes k * k padded copies of dy; this is the same sum in reverse.
    x, kernel = residuals
    size = kernel.shape[0]
    padded, outputs = _pad_same(x, size, stride)
    products = [window * dy for window in _windows(padded, size, outputs, stride)]
    # One pass for all k * k sums, image by image, so that each image stays in the cache. The sums
    # of a column vectorize better, but of small maps, they are as many as the products.
    axes = (1,) if outputs[1] >= _MANY_COLUMNS else (1, 2)
    sums = jax.lax.reduce(products, [jnp.zeros(())] * size**2, _add, dimensions=axes)
    dkernel = jnp.stack([jnp.sum(each, axis=tuple(range(each.ndim - 1))) for each in sums])
    margins = [
        (size - 1 - before, length - 1 + before - (output - 1) * stride, stride - 1)
        for length, output in zip(x.shape[1:3], outputs, strict=True)
        for before in [_same_padding(length, size, stride)[1][0]]
    ]
    dilated = jax.lax.pad(dy.astype(jnp.float32), 0.0, [(0, 0, 0), *margins, (0, 0, 0)])
    dx = _sum_windows(dilated, kernel[::-1, ::-1], (x.shape[1], x.shape[2]), 1)
    return dx.astype(x.dtype), dkernel.reshape(kernel.shape).astype(kernel.dtype)


def _add(left: list[jax.Array], right: list[jax.Array]) -> list[jax.Array]:
    return [a + b for a, b in zip(left, right, strict=True)]


shifted.defvjp(_shifted_forward, _shifted_backward)


def _pad_same(x: jax.Array, size: int, stride: int) -> tuple[jax.Array, tuple[int, int]]:
    """Returns x in float32 with its zeros, and the output's rows and columns."""
    (rows, pad_rows), (columns, pad_columns) = (
        _same_padding(length, size, stride) for length in x.shape[1:3]
    )
    x = jnp.pad(x.astype(jnp.float32), ((0, 0), pad_rows, pad_columns, (0, 0)))
    return x, (rows, columns)


def _windows(
    padded: jax.Array, size: int, outputs: tuple[int, int], stride: int
) -> list[jax.Array]:
    """Returns the input of each of the k * k kernel positions, row by row."""
    rows, columns = (1 + (output - 1) * stride for output in outputs)
    return [
        padded[:, i : i + rows : stride, j : j + columns : stride]
        for i in range(size)
        for j in range(size)
    ]


def _sum_windows(
    padded: jax.Array, kernel: jax.Array, outputs: tuple[int, int], stride: int
) -> jax.Array:
    size = kernel.shape[0]
    weights = kernel.astype(jnp.float32).reshape(size * size, -1)
    return sum(w * x for w, x in zip(weights, _windows(padded, size, outputs, stride), strict=True))


def _same_padding(length: int, size: int, stride: int) -> tuple[int, tuple[int, int]]:
    """Returns TensorFlow's output length, and zeros before and after (the odd one after)."""
    output = -(-length // stride)
    total = max((output - 1) * stride + size - length, 0)
    return output, (total // 2, total - total // 2)


IMPLEMENTATIONS: Mapping[str, Depthwise] = {"convolution": convolution, "shifted": shifted}


NAMES = (*IMPLEMENTATIONS, "auto")


def choose(name: str, platform: str) -> Depthwise:
    """Returns the implementation called `name`; "auto" is the faster one on the platform."""
    faster = "shifted" if platform == "cpu" else "convolution"
    table = {**IMPLEMENTATIONS, "auto": IMPLEMENTATIONS[faster]}
    return lookup("config.model.image.encoder.depthwise", name, table)
