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
from xmodal.models.initializers import CONV
from xmodal.models.mode import Mode


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
    def __call__(
        self, inputs: jax.Array, mode: Mode, estimate: jax.Array | None = None
    ) -> tuple[jax.Array, jax.Array | None]:
        """[B, H, W, I] -> [B, ceil(H/s), ceil(W/s), channels] and an estimate of its means.

        Args:
          inputs: maps; packed maps stay packed.
          mode: see `BatchNorm`.
          estimate: of the means of the inputs, see `BatchNorm`, if fusion is preferred, see
            `gating.prefers_fusion`; needs `norm`.

        Returns:
          The maps, and the estimate of their means; None without that of the inputs.
        """
        x, mean = inputs, estimate
        expanded = inputs.shape[-1] * self.stage.expand
        if self.stage.expand > 1:
            x, mean = self._pointwise(x, mean, expanded, "expand")
            x, mean = self._normalize(x, mean, "expand", mode, self.activation)
        x, mean = self._convolve_depthwise(x, mean)
        gate = None
        if self.squeeze_excite:
            gate, mean = self._gate(x, mean, max(1, inputs.shape[-1] // 4), mode)
        else:
            x, mean = self._normalize(x, mean, "depthwise", mode, self.activation)
        x, mean = self._pointwise(x, mean, self.channels, "project", gate)
        x, mean = self._normalize(x, mean, "project", mode)
        if self.stride > 1 or inputs.shape[-1] != self.channels:
            return x, mean
        within = (1, 2, x.ndim - 1)
        per_example = nn.Dropout(self.drop_connect, broadcast_dims=within, deterministic=False)
        if estimate is not None and mean is not None:
            mean += estimate
        return inputs + per_example(x), mean

    def _convolve_depthwise(
        self, x: jax.Array, estimate: jax.Array | None
    ) -> tuple[jax.Array, jax.Array | None]:
        size, channels = self.stage.kernel, x.shape[-1]
        # Its fan-out is k * k, as in the original.
        kernel = self.param("depthwise", CONV, (size, size, channels, 1))
        if estimate is not None:
            estimate *= jnp.sum(kernel, axis=(0, 1, 3))
        kernel = jnp.tile(kernel, (1, 1, packing.count_images(x), 1)).astype(self.dtype)
        x = packing.convolve(lambda joined: self.depthwise(joined, kernel, self.stride), x)
        if self.norm is None:
            x += self.param("depthwise_bias", nn.initializers.zeros, (channels,)).astype(x.dtype)
        return x, estimate

    def _normalize(
        self,
        x: jax.Array,
        estimate: jax.Array | None,
        name: str,
        mode: Mode,
        activation: Callable[[jax.Array], jax.Array] = lambda x: x,
    ) -> tuple[jax.Array, jax.Array | None]:
        """Normalizes and activates a map; then its means do not depend on the estimate."""
        if self.norm is None:
            return activation(x), None
        norm = self.norm(name=f"{name}_norm")
        x = activation(norm(x, mode, estimate=estimate))
        return x, None if estimate is None else norm.output_mean(activation)

    def _gate(
        self, x: jax.Array, estimate: jax.Array | None, squeezed: int, mode: Mode
    ) -> tuple[gating.Gate, jax.Array | None]:
        """Returns the gate of the output of the depthwise convolution, and the gated means."""
        assert self.norm is not None, "a gated block has normalizations"
        affine = self.norm(name="depthwise_norm").item_coefficients(x, mode, estimate)
        means = gating.mean(self.activation, x, affine)
        gates = self._connect(means.astype(self.dtype), squeezed, "squeeze")
        gates = self._connect(self.activation(gates), x.shape[-1], "excite")
        gates = jax.nn.sigmoid(gates)
        fuse = estimate is not None
        gate = gating.Gate(self.activation, affine, gates, recompute=fuse)
        return gate, means * gates if fuse else None

    def _pointwise(
        self,
        x: jax.Array,
        estimate: jax.Array | None,
        channels: int,
        name: str,
        gate: gating.Gate | None = None,
    ) -> tuple[jax.Array, jax.Array | None]:
        if self.norm is None:
            return self._connect(x, channels, name), None
        conv = packing.Conv(channels, 1, CONV, self.dtype, product=self.products, name=name)
        return conv(x, estimate, gate)

    def _connect(self, x: jax.Array, channels: int, name: str) -> jax.Array:
        return nn.Conv(channels, (1, 1), kernel_init=CONV, dtype=self.dtype, name=name)(x)
