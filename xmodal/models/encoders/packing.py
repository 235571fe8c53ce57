"""Packs several images into the channels, for the first stages of a network on TPUs.

A TPU stores arrays in tiles of 128 numbers along the minor dimension, channels or images, and moves
whole tiles. With 24, 48, 144 or 192 channels and 64 images, a quarter to a half of every tile is
padding. P images in P * C channels fill the tiles. A packed map is [N / P, H, W, P, C]: elementwise
operations, normalization and means over a map treat P as one more batch dimension; convolutions
see P * C channels, with a kernel that is repeated (depthwise) or block-diagonal. The zeros of the
kernel do not change values, but they are multiplied, so later stages, which have little padding and
many products, are not packed.
"""

import math
from collections.abc import Callable
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from xmodal.models.encoders import gating


def choose(images: int | None, platform: str) -> int:
    """Returns the number of images to pack; None is 4 on TPUs, where 4 * 32 fill a tile, else 1."""
    return images or (4 if platform == "tpu" else 1)


def prefers_products(platform: str) -> bool:
    """Returns whether a convolution by one pixel is slower than the same matrix product.

    On CPUs, XLA transposes whole maps for the gradient of its kernel.
    """
    return platform == "cpu"


def fit(images: int, batch: int, devices: int) -> int:
    """Returns the largest divisor of `images` for which no pack spans two devices.

    It is 1 for a function that is exported for batches of any size.
    """
    if images == 1 or not isinstance(batch, int):
        return 1
    rows, rest = divmod(batch, devices)
    return 1 if rest else math.gcd(images, rows)


def pack(x: jax.Array, images: int) -> jax.Array:
    """[N, H, W, C] -> [N / P, H, W, P, C], P consecutive images in each; unchanged for P = 1."""
    if images == 1:
        return x
    return jnp.moveaxis(x.reshape(-1, images, *x.shape[1:]), 1, 3)


def unpack(x: jax.Array) -> jax.Array:
    """[N / P, H, W, P, C] -> [N, H, W, C]; a map that is not packed is returned unchanged."""
    if x.ndim == 4:
        return x
    return jnp.moveaxis(x, 3, 1).reshape(-1, *x.shape[1:3], x.shape[-1])


def convolve(convolution: Callable[[jax.Array], jax.Array], x: jax.Array) -> jax.Array:
    """Applies a convolution of [N / P, H, W, P * C] to a map [N / P, H, W, P, C]."""
    y = convolution(x.reshape(*x.shape[:3], -1))
    return y.reshape(*y.shape[:3], *x.shape[3:-1], -1)


def count_images(x: jax.Array) -> int:
    """Returns P; 1 for a map that is not packed."""
    return math.prod(x.shape[3:-1])


def estimate_mean(x: jax.Array) -> jax.Array:
    """Returns the mean of the middle rows of maps [N, H, W, (P,) C], float32 [N, 1, 1, (P,) C]."""
    row = x.shape[1] // 2
    # On TPUs, a row of a map with separate images would be cut from a copy in another layout.
    joined = x.reshape(*x.shape[:3], -1)[:, row : row + 1]
    mean = jnp.mean(joined, axis=(1, 2), keepdims=True, dtype=jnp.float32)
    return mean.reshape(*mean.shape[:3], *x.shape[3:])


class Conv(nn.Module):
    """`nn.Conv` with SAME padding and no bias, for maps that may be packed.

    It also estimates the means of its output from those of its input, for `BatchNorm`.

    Attributes:
      features: output channels of one image.
      size: size of the kernel, in both directions.
      kernel_init: initializer of the kernel of one image, which is the parameter.
      dtype: compute dtype.
      stride: stride in both directions.
      product: whether a kernel of one pixel is applied as a matrix, see `prefers_products`.
    """

    features: int
    size: int
    kernel_init: nn.initializers.Initializer
    dtype: DTypeLike
    stride: int = 1
    product: bool = False

    @nn.compact
    def __call__(
        self, x: jax.Array, estimate: jax.Array | None = None, gate: gating.Gate | None = None
    ) -> tuple[jax.Array, jax.Array | None]:
        """[N, H, W, (P,) I] -> [N, ceil(H / s), ceil(W / s), (P,) features], estimated means.

        Args:
          x: maps.
          estimate: their estimated means, float32 [..., I], if any after `gate`.
          gate: the operations on the maps before.

        Returns:
          The convolution, and an estimate of its means, float32 [..., features], or None.
        """
        shape = (self.size, self.size, x.shape[-1], self.features)
        kernel = self.param("kernel", self.kernel_init, shape)
        if estimate is not None:
            weights = jnp.sum(kernel, axis=(0, 1))
            estimate = jnp.matmul(estimate, weights, precision=jax.lax.Precision.HIGHEST)
        linear = partial(_convolve_same, self.dtype, self.stride, self.product)
        if gate is not None:
            return gating.convolve(linear, gate, x, kernel), estimate
        return linear(x, kernel), estimate


def _convolve_same(
    dtype: DTypeLike, stride: int, product: bool, x: jax.Array, kernel: jax.Array
) -> jax.Array:
    x = x.astype(dtype)
    if product and kernel.shape[:2] == (1, 1) and stride == 1:
        return _multiply(x, kernel[0, 0].astype(dtype))
    # Before the cast, so that the gradients of the blocks are added in float32.
    kernel = _block_diagonal(kernel, count_images(x)).astype(dtype)
    return convolve(
        lambda joined: jax.lax.conv_general_dilated(
            joined,
            kernel,
            window_strides=(stride, stride),
            padding="SAME",
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        ),
        x,
    )


def _multiply(x: jax.Array, matrix: jax.Array) -> jax.Array:
    """Returns x [..., I] times a matrix [I, O]."""
    # Products that sum over several axes, as the gradient of `x @ matrix`, transpose whole maps.
    rows = x.reshape(-1, x.shape[-1])
    return (rows @ matrix).reshape(*x.shape[:-1], matrix.shape[-1])


def _block_diagonal(kernel: jax.Array, blocks: int) -> jax.Array:
    """[k, k, I, O] -> [k, k, P * I, P * O], 0 between different images."""
    if blocks == 1:
        return kernel
    diagonal = jnp.eye(blocks, dtype=kernel.dtype)[:, None, :, None]
    both = diagonal * kernel[:, :, None, :, None, :]
    rows, columns, inputs, outputs = kernel.shape
    return both.reshape(rows, columns, blocks * inputs, blocks * outputs)
