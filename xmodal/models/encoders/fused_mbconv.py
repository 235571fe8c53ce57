"""EfficientNet's blocks with less memory traffic, for TPUs: the values and parameters of `MBConv`.

Traffic bounds a training step there. Three changes reduce it:

- Packing. A TPU stores arrays in tiles of 128 numbers along the channels and moves whole tiles. In
  the first stages, 24 to 192 channels leave a quarter to a half of a tile empty. Four images in
  4 * C channels fill the tiles: a packed map is [N / 4, H, W, 4, C]. Convolutions see 4 * C
  channels, with a kernel that is repeated (depthwise) or block-diagonal. The zeros are multiplied
  too, so later stages, with less padding and more products, are not packed.
- Estimated means. An exact variance needs a center near the mean. If the center is known before the
  map is computed, the compiler takes all sums while it writes the map. Normalized maps have known
  means, and a linear layer maps means to means.
- Gates. Plain autodiff reads a gated map once for the gradient of its gates and once more for the
  sums of the normalization. Both are multiples of sums that do not depend on the gates, and are
  taken in one pass. The gated map and its gradient are computed twice rather than written.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from xmodal.models.basics import Mode
from xmodal.models.batch_norm import BatchNorm
from xmodal.models.encoders.mbconv import MBConv
from xmodal.models.initializers import CONV

PACKED = 4
LAST_PACKED = "stage3_block1"
"""The last block that reads a fourth of the resolution."""
Activation = Callable[[jax.Array], jax.Array]
Affine = tuple[jax.Array, jax.Array, jax.Array]
"""Center, factor and shift: `(x - center) * factor + shift` is activated. They and the gates are
per item, [N, 1, 1, ..., C], for a map [N, H, W, ..., C]."""
Gate = tuple[Activation, Affine, jax.Array]
"""Operations on a map before a convolution: `Affine`, activation, gates as factors."""
Linear = Callable[[jax.Array, jax.Array], jax.Array]
"""A linear function of a map and a kernel."""


class Maps(NamedTuple):
    """Maps [N, H, W, C], or packed [N / P, H, W, P, C], and their estimated means.

    The means are float32, [C] or per item.
    """

    x: jax.Array
    means: jax.Array


def grid(encoder: Any, pixels: jax.Array, mode: Mode) -> jax.Array:
    """Returns what `EfficientNet.grid` does, inside its compact method."""
    stem, head = encoder.end_channels
    x = pack(pixels, fit(pixels.shape[0], encoder.devices.count))
    conv = partial(PackedConv, dtype=encoder.dtype)
    maps = conv(stem, 3, stride=2, name="stem")(Maps(x, _middle_means(x)))
    maps = _normalize(encoder.norm(name="stem_norm"), maps, mode, encoder.activation)
    block = encoder.recomputed(FusedMBConv)
    for options in encoder.blocks(mode):
        maps = block(**options)(maps, mode)
        if options["name"] == LAST_PACKED:
            maps = Maps(unpack(maps.x), maps.means)
    maps = conv(head, 1, name="head")(maps)
    return _normalize(encoder.norm(name="head_norm"), maps, mode, encoder.activation).x


class FusedMBConv(MBConv):
    """`MBConv` of `Maps`, which may be packed; it needs normalizations."""

    @nn.compact
    def __call__(self, inputs: Any, mode: Mode) -> Any:
        """Maps of I channels -> maps of `channels` channels, which stay packed."""
        norm: Any = self.norm
        conv = partial(PackedConv, dtype=self.dtype)
        maps, entering = inputs, inputs.x.shape[-1]
        if self.stage.expand > 1:
            maps = conv(entering * self.stage.expand, 1, name="expand")(maps)
            maps = _normalize(norm(name="expand_norm"), maps, mode, self.activation)
        maps, gate = self._depthwise(maps), None
        norm_after = norm(name="depthwise_norm")
        if self.squeeze_excite:
            affine = _item_coefficients(norm_after, maps, mode)
            means = activated_mean(self.activation, maps.x, affine)
            connect = partial(nn.Conv, kernel_size=(1, 1), kernel_init=CONV, dtype=self.dtype)
            gates = connect(max(1, entering // 4), name="squeeze")(means.astype(self.dtype))
            gates = connect(maps.x.shape[-1], name="excite")(self.activation(gates))
            gates = jax.nn.sigmoid(gates)
            gate = self.activation, affine, gates
            maps = Maps(maps.x, means * gates)
        else:
            maps = _normalize(norm_after, maps, mode, self.activation)
        maps = conv(self.channels, 1, name="project")(maps, gate)
        maps = _normalize(norm(name="project_norm"), maps, mode)
        if self.stride > 1 or entering != self.channels:
            return maps
        within = (1, 2, maps.x.ndim - 1)
        drop = nn.Dropout(self.drop_connect, broadcast_dims=within, deterministic=False)
        return Maps(inputs.x + drop(maps.x), maps.means + inputs.means)

    def _depthwise(self, maps: Maps) -> Maps:
        size, images = self.stage.kernel, math.prod(maps.x.shape[3:-1])
        kernel = self.param("depthwise", CONV, (size, size, maps.x.shape[-1], 1))
        means = maps.means * jnp.sum(kernel, axis=(0, 1, 3))
        kernel = jnp.tile(kernel, (1, 1, images, 1)).astype(self.dtype)
        return Maps(_join(lambda x: self.depthwise(x, kernel, self.stride), maps.x), means)


# Packing.


def fit(batch: Any, devices: int) -> int:
    """Returns the largest divisor of `PACKED` for which no pack spans two devices.

    It is 1 for a function that is exported for batches of any size.
    """
    if not isinstance(batch, int) or batch % devices:
        return 1
    return math.gcd(PACKED, batch // devices)


def pack(x: jax.Array, images: int) -> jax.Array:
    """[N, H, W, C] -> [N / P, H, W, P, C], P consecutive images in each."""
    return jnp.moveaxis(x.reshape(-1, images, *x.shape[1:]), 1, 3)


def unpack(x: jax.Array) -> jax.Array:
    """[N / P, H, W, P, C] -> [N, H, W, C]."""
    return jnp.moveaxis(x, 3, 1).reshape(-1, *x.shape[1:3], x.shape[-1])


def _join(convolution: Callable[[jax.Array], jax.Array], x: jax.Array) -> jax.Array:
    """Applies a convolution of [N / P, H, W, P * C] to a map [N / P, H, W, P, C]."""
    y = convolution(x.reshape(*x.shape[:3], -1))
    return y.reshape(*y.shape[:3], *x.shape[3:-1], -1)


class PackedConv(nn.Module):
    """`nn.Conv` with SAME padding and no bias, for maps that may be packed.

    Attributes:
      features: output channels of one image.
      size: size of the kernel, in both directions.
      dtype: compute dtype.
      stride: stride in both directions.
    """

    features: int
    size: int
    dtype: DTypeLike
    stride: int = 1

    @nn.compact
    def __call__(self, maps: Maps, gate: Gate | None = None) -> Maps:
        """Convolves maps, after the operations of `gate`; the means are those after it."""
        kernel = self.param("kernel", CONV, (self.size, self.size, maps.x.shape[-1], self.features))
        weights = jnp.sum(kernel, axis=(0, 1))
        means = jnp.matmul(maps.means, weights, precision=jax.lax.Precision.HIGHEST)
        if gate is None:
            return Maps(self._convolve(maps.x, kernel), means)
        activation, affine, gates = gate
        x = convolve_gated(self._convolve, activation, maps.x, affine, gates, kernel)
        return Maps(x, means)

    def _convolve(self, x: jax.Array, kernel: jax.Array) -> jax.Array:
        # Before the cast, so that the gradients of the blocks are added in float32.
        kernel = _block_diagonal(kernel, math.prod(x.shape[3:-1])).astype(self.dtype)
        convolve = partial(
            jax.lax.conv_general_dilated,
            rhs=kernel,
            window_strides=(self.stride, self.stride),
            padding="SAME",
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )
        return _join(convolve, x.astype(self.dtype))


def _block_diagonal(kernel: jax.Array, blocks: int) -> jax.Array:
    """[k, k, I, O] -> [k, k, P * I, P * O], 0 between different images."""
    if blocks == 1:
        return kernel
    diagonal = jnp.eye(blocks, dtype=kernel.dtype)[:, None, :, None]
    both = diagonal * kernel[:, :, None, :, None, :]
    rows, columns, inputs, outputs = kernel.shape
    return both.reshape(rows, columns, blocks * inputs, blocks * outputs)


# Estimated means.


def _middle_means(x: jax.Array) -> jax.Array:
    """Returns the means of the middle rows of maps [N, H, W, (P,) C], float32 [N, 1, 1, (P,) C]."""
    row = x.shape[1] // 2
    # On TPUs, a row of a map with separate images would be cut from a copy in another layout.
    joined = x.reshape(*x.shape[:3], -1)[:, row : row + 1]
    mean = jnp.mean(joined, axis=(1, 2), keepdims=True, dtype=jnp.float32)
    return mean.reshape(*mean.shape[:3], *x.shape[3:])


def _normalize(
    norm: BatchNorm, maps: Maps, mode: Mode, activation: Activation = lambda x: x
) -> Maps:
    """Normalizes and activates maps. Their means then follow from the parameters alone.

    Normalized values have the bias as mean and the scale as deviation, but for epsilon. The mean
    of the activated ones is that of Gauss-Hermite quadrature with two points.
    """
    x = activation(norm(maps.x, mode, center=_center(norm, maps.means, mode)))
    bias: jax.Array = norm.get_variable("params", "bias")
    scale: jax.Array = norm.get_variable("params", "scale")
    return Maps(x, (activation(bias - scale) + activation(bias + scale)) / 2)


def _center(norm: BatchNorm, means: jax.Array, mode: Mode) -> jax.Array:
    """Returns estimated means, per group of the batch if they are per item."""
    if means.ndim == 1:
        return means
    parts = norm.split(means, mode)
    return jnp.mean(parts, axis=tuple(range(1, parts.ndim - 1)), keepdims=True)


def _item_coefficients(norm: BatchNorm, maps: Maps, mode: Mode) -> Affine:
    """Returns center, factor and shift of every item of a batch."""
    x = maps.x
    parts = norm.split(x, mode)
    spread = (*parts.shape[:2], 1, 1, *x.shape[3:])
    shape = (x.shape[0], 1, 1, *x.shape[3:])
    found = norm.coefficients(parts, mode, center=_center(norm, maps.means, mode))
    center, factor, shift = (jnp.broadcast_to(each, spread).reshape(shape) for each in found)
    return center, factor, shift


# Gates.


_sum = partial(jnp.sum, axis=(1, 2), keepdims=True)
_mean = partial(jnp.mean, axis=(1, 2), keepdims=True)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def activated_mean(activation: Activation, x: jax.Array, affine: Affine) -> jax.Array:
    """Returns the mean of the activations over H and W, in float32."""
    return _mean(_activate(activation, x, affine)[0])


def _mean_forward(
    activation: Activation, x: jax.Array, affine: Affine
) -> tuple[jax.Array, tuple[Any, ...]]:
    activated, slope = _activate(activation, x, affine)
    return _mean(activated), (x, affine, _mean(slope * _distance(x, affine)), _mean(slope))


def _mean_backward(
    activation: Activation, residuals: tuple[Any, ...], dmean: jax.Array
) -> tuple[jax.Array, Affine]:
    x, affine, by_factor, by_shift = residuals
    _, slope = _activate(activation, x, affine)
    _, factor, _ = affine
    dx = slope * (dmean * factor / (x.shape[1] * x.shape[2]))
    return dx.astype(x.dtype), _affine_gradient(factor, dmean * by_factor, dmean * by_shift)


activated_mean.defvjp(_mean_forward, _mean_backward)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def convolve_gated(
    linear: Linear,
    activation: Activation,
    x: jax.Array,
    affine: Affine,
    gates: jax.Array,
    kernel: jax.Array,
) -> jax.Array:
    """Returns a linear function of the activations times the gates, in the dtype of x."""
    return linear(activation(_affine(x, affine)) * gates, kernel)


def _convolve_forward(
    linear: Linear, activation: Activation, *inputs: Any
) -> tuple[jax.Array, tuple[Any, ...]]:
    return convolve_gated(linear, activation, *inputs), inputs


def _convolve_backward(
    linear: Linear, activation: Activation, residuals: tuple[Any, ...], dy: jax.Array
) -> tuple[jax.Array, Affine, jax.Array, jax.Array]:
    x, affine, gates, kernel = residuals
    # Behind barriers, as equal operations would be merged, and the gated map stored.
    gates = jax.lax.optimization_barrier(gates)
    gated = activation(_affine(x, affine)) * gates
    dgated, dkernel = jax.vjp(linear, gated, kernel)[1](dy)
    activated, slope = _activate(activation, x, affine)
    weights, factor = gates.astype(jnp.float32), affine[1]
    change = slope * dgated.astype(jnp.float32)
    by_factor, by_shift = weights * _sum(change * _distance(x, affine)), weights * _sum(change)
    dgates = _sum(dgated.astype(jnp.float32) * activated).astype(gates.dtype)
    dgated, _ = jax.vjp(linear, gated, jax.lax.optimization_barrier(kernel))[1](dy)
    dx = slope * dgated.astype(jnp.float32) * (weights * factor)
    return dx.astype(x.dtype), _affine_gradient(factor, by_factor, by_shift), dgates, dkernel


convolve_gated.defvjp(_convolve_forward, _convolve_backward)


def _affine_gradient(factor: jax.Array, by_factor: jax.Array, by_shift: jax.Array) -> Affine:
    return -factor * by_shift, by_factor, by_shift


def _distance(x: jax.Array, affine: Affine) -> jax.Array:
    """Returns x minus its center."""
    return x.astype(jnp.float32) - affine[0]


def _affine(x: jax.Array, affine: Affine) -> jax.Array:
    """Returns `(x - center) * factor + shift` in the dtype of x."""
    _, factor, shift = affine
    return (_distance(x, affine) * factor + shift).astype(x.dtype)


def _activate(activation: Activation, x: jax.Array, affine: Affine) -> tuple[jax.Array, jax.Array]:
    """Returns the activations and their derivatives by their inputs, in float32."""
    normalized = _affine(x, affine).astype(jnp.float32)
    return jax.jvp(activation, (normalized,), (jnp.ones_like(normalized),))
