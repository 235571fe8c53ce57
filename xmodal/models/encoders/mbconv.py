"""The inverted bottleneck of MobileNetV2 and EfficientNet.

Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks" (2018).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from xmodal.models.basics import Mode
from xmodal.models.encoders.depthwise import Depthwise
from xmodal.models.initializers import CONV


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


def pointwise(channels: int, dtype: DTypeLike, name: str, bias: bool = False) -> nn.Conv:
    """Returns a 1 x 1 convolution, computed as a matrix product.

    XLA on CPUs would transpose whole maps for the gradient of its kernel.
    """
    return nn.Conv(
        channels, (1, 1), use_bias=bias, kernel_init=CONV, dtype=dtype,
        conv_general_dilated=_multiply, name=name,
    )  # fmt: skip


def _multiply(x: jax.Array, kernel: jax.Array, *_: Any, **options: Any) -> jax.Array:
    """Returns x [B, H, W, I] times a kernel [1, 1, I, O]."""
    return (x.reshape(-1, x.shape[-1]) @ kernel[0, 0]).reshape(*x.shape[:-1], -1)


class MBConv(nn.Module):
    """Inverted bottleneck: expand, depthwise, squeeze-excite, project, identity skip.

    Attributes:
      stage: kernel size and expansion ratio.
      channels: output channels, scaled.
      stride: stride of the depthwise convolution.
      depthwise: implementation of that convolution.
      norm: makes the normalization after a convolution, given its `name`; None for convolutions
        into which it was folded, which have biases instead.
      activation: after all convolutions but the last.
      dtype: compute dtype.
      squeeze_excite: whether the channels are gated by their mean.
      drop_connect: probability of dropping the branch of an example in this pass.
    """

    stage: Stage
    channels: int
    stride: int
    depthwise: Depthwise
    norm: Callable[..., nn.Module] | None
    activation: Callable[[jax.Array], jax.Array]
    dtype: DTypeLike
    squeeze_excite: bool = False
    drop_connect: float = 0.0

    @nn.compact
    def __call__(self, inputs: jax.Array, mode: Mode) -> jax.Array:
        """[B, H, W, I] -> [B, ceil(H/s), ceil(W/s), channels]."""
        folded, size = self.norm is None, self.stage.kernel

        def convolve(x: jax.Array, channels: int, name: str) -> jax.Array:
            return normalize(pointwise(channels, self.dtype, name, bias=folded)(x), name)

        def normalize(x: jax.Array, name: str) -> jax.Array:
            return x if self.norm is None else self.norm(name=f"{name}_norm")(x, mode)

        x = inputs
        if self.stage.expand > 1:
            x = self.activation(convolve(x, x.shape[-1] * self.stage.expand, "expand"))
        # The fan-out of this kernel is k * k, as in the original.
        kernel = self.param("depthwise", CONV, (size, size, x.shape[-1], 1))
        x = self.depthwise(x, kernel.astype(self.dtype), self.stride)
        if folded:
            x += self.param("depthwise_bias", nn.initializers.zeros, x.shape[-1:]).astype(x.dtype)
        x = self.activation(normalize(x, "depthwise"))
        if self.squeeze_excite:
            gates = jnp.mean(x, axis=(1, 2), keepdims=True)
            squeezed = max(1, inputs.shape[-1] // 4)
            gates = pointwise(squeezed, self.dtype, "squeeze", bias=True)(gates)
            gates = pointwise(x.shape[-1], self.dtype, "excite", bias=True)(self.activation(gates))
            x = x * jax.nn.sigmoid(gates)
        x = convolve(x, self.channels, "project")
        if self.stride > 1 or inputs.shape[-1] != self.channels:
            return x
        drop = nn.Dropout(self.drop_connect, broadcast_dims=(1, 2, 3), deterministic=False)
        return inputs + drop(x)
