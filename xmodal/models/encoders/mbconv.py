"""The inverted bottleneck of MobileNetV2 and EfficientNet.

Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks" (2018).
"""

from collections.abc import Callable
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from xmodal.models.encoders import depthwise as depthwise_lib
from xmodal.models.encoders import gating, packing
from xmodal.models.mode import Mode

# A depthwise kernel is [k, k, C, 1], so its fan-out is k * k, as in the original.
CONV_INIT = nn.initializers.variance_scaling(2.0, "fan_out", "normal")


class Stage(NamedTuple):
    """Blocks of one resolution, before scaling."""

    kernel: int
    blocks: int
    channels: int
    expand: int
    stride: int


def scale_channels(channels: int, width: float) -> int:
    """Returns `channels * width` as the nearest multiple of 8 that keeps at least 90 % of it."""
    scaled = channels * width
    rounded = max(8, int(scaled + 4) // 8 * 8)
    return rounded if rounded >= 0.9 * scaled else rounded + 8


class MBConv(nn.Module):
    """Inverted bottleneck: expand, depthwise, squeeze-excite, project, identity skip.

    Attributes:
      stage: kernel size and expansion ratio.
      channels: output channels, scaled.
      stride: stride of the depthwise convolution.
      depthwise: its implementation.
      norm: makes the normalization after a convolution, given its `name`; None for convolutions
        into which it was folded, which have biases instead.
      activation: after all convolutions but the last.
      dtype: compute dtype.
      squeeze_excite: whether the channels are gated by their mean; needs `norm`.
      drop_connect: probability of dropping the branch of an example in this pass.
      products: see `packing.prefers_products`.
    """

    stage: Stage
    channels: int
    stride: int
    depthwise: depthwise_lib.Depthwise
    norm: Callable[..., nn.Module] | None
    activation: Callable[[jax.Array], jax.Array]
    dtype: DTypeLike
    squeeze_excite: bool = False
    drop_connect: float = 0.0
    products: bool = False

    @nn.compact
    def __call__(self, inputs: jax.Array, mode: Mode) -> jax.Array:
        """[B, H, W, I] -> [B, ceil(H/s), ceil(W/s), channels]; packed maps stay packed."""
        x, expanded = inputs, inputs.shape[-1] * self.stage.expand
        if self.stage.expand > 1:
            x = self._pointwise(x, expanded, "expand", bias=self.norm is None)
            x = self.activation(self._normalize(x, "expand", mode))
        x = self._convolve_depthwise(x)
        if self.squeeze_excite:
            assert self.norm is not None, "a gated block has normalizations"
            affine = self.norm(name="depthwise_norm").item_coefficients(x, mode)
            x = self._gate(x, affine, max(1, inputs.shape[-1] // 4))
        else:
            x = self.activation(self._normalize(x, "depthwise", mode))
        x = self._pointwise(x, self.channels, "project", bias=self.norm is None)
        x = self._normalize(x, "project", mode)
        if self.stride > 1 or inputs.shape[-1] != self.channels:
            return x
        within = (1, 2, x.ndim - 1)
        per_example = nn.Dropout(self.drop_connect, broadcast_dims=within, deterministic=False)
        return inputs + per_example(x)

    def _convolve_depthwise(self, x: jax.Array) -> jax.Array:
        size, channels = self.stage.kernel, x.shape[-1]
        kernel = self.param("depthwise", CONV_INIT, (size, size, channels, 1))
        kernel = jnp.tile(kernel, (1, 1, packing.count_images(x), 1)).astype(self.dtype)
        x = packing.convolve(lambda joined: self.depthwise(joined, kernel, self.stride), x)
        if self.norm is None:
            x += self.param("depthwise_bias", nn.initializers.zeros, (channels,)).astype(x.dtype)
        return x

    def _gate(self, x: jax.Array, affine: gating.Affine, squeezed: int) -> jax.Array:
        """Normalizes, activates and gates the output of the depthwise convolution."""
        gates = gating.mean(self.activation, x, affine).astype(self.dtype)
        gates = self._pointwise(gates, squeezed, "squeeze")
        gates = self._pointwise(self.activation(gates), x.shape[-1], "excite")
        return gating.gate(self.activation, x, affine, jax.nn.sigmoid(gates))

    def _pointwise(self, x: jax.Array, channels: int, name: str, bias: bool = True) -> jax.Array:
        if not bias:
            return packing.Conv(
                channels, 1, CONV_INIT, self.dtype, product=self.products, name=name
            )(x)
        return nn.Conv(channels, (1, 1), kernel_init=CONV_INIT, dtype=self.dtype, name=name)(x)

    def _normalize(self, x: jax.Array, name: str, mode: Mode) -> jax.Array:
        return x if self.norm is None else self.norm(name=f"{name}_norm")(x, mode)
