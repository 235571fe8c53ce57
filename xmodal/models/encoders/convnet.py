"""A small residual network for small pictures, to be trained from scratch.

The units are those of ResNet v2 without bottlenecks: He et al., "Identity Mappings in Deep Residual
Networks" (2016). There are no published weights.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import ClassVar

import flax.linen as nn
import jax
from jax.typing import DTypeLike

from xmodal.core.config import setting
from xmodal.models.basics import Mode
from xmodal.models.batch_norm import BatchNorm
from xmodal.models.encoders.encoder import ConvEncoder, ConvEncoderConfig
from xmodal.models.initializers import CONV


class ConvNet(ConvEncoder):
    """Pixels to a map that every stage halves."""

    config: "ConvNetConfig"
    norm_options: ClassVar = {"momentum": 0.9, "epsilon": 1e-5}

    @nn.compact
    def grid(self, pixels: jax.Array, mode: Mode) -> jax.Array:
        """Normalized pixels [B, H, W, 3] -> [B, ceil(H / 2**S), ceil(W / 2**S), C], S stages."""
        unit, config, x = self.recomputed(Unit), self.config, pixels
        for stage, (channels, units) in enumerate(
            zip(config.channels, config.units, strict=True), start=1
        ):
            x = _conv(channels, dtype=self.dtype, name=f"stage{stage}", strides=2)(x)
            for index in range(units):
                x = unit(self.norm, self.dtype, name=f"stage{stage}_unit{index + 1}")(x, mode)
        return jax.nn.relu(self.norm(name="norm")(x, mode))


class Unit(nn.Module):
    """Two 3x3 convolutions, each after a batch normalization, added to the identity."""

    norm: Callable[..., BatchNorm]
    dtype: DTypeLike

    @nn.compact
    def __call__(self, inputs: jax.Array, mode: Mode) -> jax.Array:
        """[B, H, W, C] -> [B, H, W, C]."""
        x = inputs
        for name in ("first", "second"):
            x = jax.nn.relu(self.norm(name=f"{name}_norm")(x, mode))
            x = _conv(x.shape[-1], dtype=self.dtype, name=name)(x)
        return inputs + x


_conv = partial(nn.Conv, kernel_size=(3, 3), use_bias=False, kernel_init=CONV)


@dataclasses.dataclass(frozen=True)
class ConvNetConfig(ConvEncoderConfig):
    """Settings of a small residual network; see `ConvEncoderConfig` for the common ones.

    Attributes:
      channels: channels of the stages; every stage halves the map.
      units: number of residual units of the stages.
    """

    channels: tuple[int, ...] = setting((32, 64, 128, 256), at_least=1)
    units: tuple[int, ...] = setting((0, 1, 1, 1), at_least=0)
