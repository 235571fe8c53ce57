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
      fuse: see `gating.prefers_fusion`; needs `norm`.
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
    fuse: bool = False

    @nn.compact
    def __call__(self, inputs: jax.Array, mode: Mode) -> jax.Array:
        """[B, H, W, I] -> [B, ceil(H/s), ceil(W/s), channels]; packed maps stay packed."""
        x, estimate = inputs, None  # `estimate` of the means of x, see `BatchNorm`; only to `fuse`.
        expanded = inputs.shape[-1] * self.stage.expand
        if self.stage.expand > 1:
            x, estimate = self._pointwise(x, estimate, expanded, "expand")
            x, estimate = self._activate(x, estimate, "expand", mode)
        x, estimate = self._convolve_depthwise(x, estimate)
        gate = None
        if self.squeeze_excite:
            gate, estimate = self._gate(x, estimate, max(1, inputs.shape[-1] // 4), mode)
        else:
            x, estimate = self._activate(x, estimate, "depthwise", mode)
        x, estimate = self._pointwise(x, estimate, self.channels, "project", gate)
        if self.norm is not None:
            x = self.norm(name="project_norm")(x, mode, estimate=estimate)
        if self.stride > 1 or inputs.shape[-1] != self.channels:
            return x
        within = (1, 2, x.ndim - 1)
        per_example = nn.Dropout(self.drop_connect, broadcast_dims=within, deterministic=False)
        return inputs + per_example(x)

    def _convolve_depthwise(
        self, x: jax.Array, estimate: jax.Array | None
    ) -> tuple[jax.Array, jax.Array | None]:
        size, channels = self.stage.kernel, x.shape[-1]
        kernel = self.param("depthwise", CONV_INIT, (size, size, channels, 1))
        if self.fuse:
            estimate = packing.mean(packing.middle_row(x)) if estimate is None else estimate
            estimate *= jnp.sum(kernel, axis=(0, 1, 3))
        kernel = jnp.tile(kernel, (1, 1, packing.count_images(x), 1)).astype(self.dtype)
        x = packing.convolve(lambda joined: self.depthwise(joined, kernel, self.stride), x)
        if self.norm is None:
            x += self.param("depthwise_bias", nn.initializers.zeros, (channels,)).astype(x.dtype)
        return x, estimate

    def _activate(
        self, x: jax.Array, estimate: jax.Array | None, name: str, mode: Mode
    ) -> tuple[jax.Array, jax.Array | None]:
        """Normalizes and activates a map."""
        if self.norm is None:
            return self.activation(x), None
        norm = self.norm(name=f"{name}_norm")
        if not self.fuse:
            return self.activation(norm(x, mode)), None
        affine = norm.item_coefficients(x, mode, estimate)
        # The row apart, so that the activated map need not be written.
        x, row = (
            self.activation(gating.normalize(each, affine)) for each in (x, packing.middle_row(x))
        )
        return x, packing.mean(row)

    def _gate(
        self, x: jax.Array, estimate: jax.Array | None, squeezed: int, mode: Mode
    ) -> tuple[gating.Gate, jax.Array | None]:
        """Returns what is done with the output of the depthwise convolution, and its means then."""
        assert self.norm is not None, "a gated block has normalizations"
        affine = self.norm(name="depthwise_norm").item_coefficients(x, mode, estimate)
        means = gating.mean(self.activation, x, affine)
        gates = self._connect(means.astype(self.dtype), squeezed, "squeeze")
        gates = self._connect(self.activation(gates), x.shape[-1], "excite")
        gates = jax.nn.sigmoid(gates)
        gate = gating.Gate(self.activation, affine, gates, recompute=self.fuse)
        return gate, means * gates if self.fuse else None

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
        conv = packing.Conv(
            channels,
            1,
            CONV_INIT,
            self.dtype,
            product=self.products,
            estimates=self.fuse,
            name=name,
        )
        return conv(x, estimate, gate)

    def _connect(self, x: jax.Array, channels: int, name: str) -> jax.Array:
        return nn.Conv(channels, (1, 1), kernel_init=CONV_INIT, dtype=self.dtype, name=name)(x)
