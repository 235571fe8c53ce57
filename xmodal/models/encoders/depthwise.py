"""Depthwise convolution with TensorFlow's SAME padding, in two implementations of one function.

XLA on CPU runs a grouped convolution several times slower than the same sum written as shifted
products; accelerators have kernels for the grouped form.
"""

from collections.abc import Callable, Mapping
from functools import partial

import jax
import jax.numpy as jnp

Depthwise = Callable[[jax.Array, jax.Array, int], jax.Array]
_MANY_COLUMNS = 64


def convolution(x: jax.Array, kernel: jax.Array, stride: int) -> jax.Array:
    """Returns the grouped convolution of XLA.

    X [B, H, W, C], kernel [k, k, C, 1] -> [B, ceil(H / s), ceil(W / s), C].
    """
    return jax.lax.conv_general_dilated(
        x, kernel.reshape(*kernel.shape[:2], 1, -1), (stride, stride), "SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=x.shape[-1],
    )  # fmt: skip


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def shifted(x: jax.Array, kernel: jax.Array, stride: int) -> jax.Array:
    """Returns `convolution` as a sum of k * k shifted, strided products in float32.

    A loop over the images keeps XLA from repeating the sum in every operation that reads it.
    """
    padded = jnp.pad(x.astype(jnp.float32), _padding(x, kernel, stride))
    outputs = jax.lax.map(lambda image: _sum_windows(image[None], kernel, stride)[0], padded)
    return outputs.astype(x.dtype)


def _forward(
    x: jax.Array, kernel: jax.Array, stride: int
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    return shifted(x, kernel, stride), (x, kernel)


def _backward(
    stride: int, residuals: tuple[jax.Array, jax.Array], dy: jax.Array
) -> tuple[jax.Array, jax.Array]:
    # Plain autodiff writes k * k padded copies of dy; this is the same sum in reverse.
    x, kernel = residuals
    size, padding = kernel.shape[0], _padding(x, kernel, stride)
    margins = [
        (size - 1 - before, length - 1 + before - (output - 1) * stride, stride - 1)
        for length, output, (before, _) in zip(x.shape, dy.shape, padding, strict=True)
    ][1:3]
    # The sums of a column vectorize better, but small maps have as many of them as products.
    axes = (1,) if dy.shape[2] >= _MANY_COLUMNS else (1, 2)

    def of_image(inputs: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        x, dy = (each[None].astype(jnp.float32) for each in inputs)
        products = [window * dy for window in _windows(jnp.pad(x, padding), size, stride)]
        # One pass for all k * k sums.
        zeros = [jnp.zeros(())] * size**2
        sums = jax.lax.reduce(products, zeros, partial(jax.tree.map, jnp.add), dimensions=axes)
        dkernel = jnp.stack([jnp.sum(each, axis=tuple(range(each.ndim - 1))) for each in sums])
        dilated = jax.lax.pad(dy, 0.0, [(0, 0, 0), *margins, (0, 0, 0)])
        return _sum_windows(dilated, kernel[::-1, ::-1], 1)[0], dkernel

    dx, dkernels = jax.lax.map(of_image, (x, dy))
    dkernel = jnp.sum(dkernels, axis=0).reshape(kernel.shape)
    return dx.astype(x.dtype), dkernel.astype(kernel.dtype)


shifted.defvjp(_forward, _backward)


def _padding(x: jax.Array, kernel: jax.Array, stride: int) -> list[tuple[int, int]]:
    """Returns the zeros before and after each axis of x; of an odd number, most come after."""
    sides = jax.lax.padtype_to_pads(x.shape[1:3], kernel.shape[:2], (stride, stride), "SAME")
    return [(0, 0), *sides, (0, 0)]


def _windows(padded: jax.Array, size: int, stride: int) -> list[jax.Array]:
    """Returns the input of each of the k * k kernel positions, row by row."""
    rows, columns = (length - size + 1 for length in padded.shape[1:3])
    return [
        padded[:, i : i + rows : stride, j : j + columns : stride]
        for i in range(size)
        for j in range(size)
    ]


def _sum_windows(padded: jax.Array, kernel: jax.Array, stride: int) -> jax.Array:
    size = kernel.shape[0]
    weights = kernel.astype(jnp.float32).reshape(size * size, -1)
    return sum(w * x for w, x in zip(weights, _windows(padded, size, stride), strict=True))


IMPLEMENTATIONS: Mapping[str, Depthwise] = {"convolution": convolution, "shifted": shifted}
NAMES = (*IMPLEMENTATIONS, "auto")


def choose(name: str, platform: str) -> Depthwise:
    """Returns the implementation called `name`; "auto" is the faster one on the platform."""
    if name == "auto":
        name = "shifted" if platform == "cpu" else "convolution"
    return IMPLEMENTATIONS[name]
