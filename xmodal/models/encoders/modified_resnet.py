"""The ResNets of CLIP: three convolutions as stem, and average pooling instead of strides.

Radford et al., "Learning Transferable Visual Models From Natural Language Supervision" (2021),
section 2.4, and `ModifiedResNet` in openai/CLIP. The head `attention_pool` belongs to it.
"""

import dataclasses
from collections.abc import Callable

import flax.linen as nn
import jax
from jax.typing import DTypeLike

from xmodal.base.config import setting
from xmodal.models.batch_norm import BatchNorm
from xmodal.models.devices import Devices
from xmodal.models.encoders import pixels as pixels_lib
from xmodal.models.encoders.image_encoder import ConvEncoder, ConvEncoderConfig
from xmodal.models.initializers import LINEAR
from xmodal.models.mode import Mode


@dataclasses.dataclass(frozen=True)
class ModifiedResNetConfig(ConvEncoderConfig):
    """Settings of CLIP's ResNets; the defaults are RN50. See `ConvEncoderConfig`.

    Attributes:
      width: channels of the stem; 80, 96 and 128 in RN50x4, x16 and x64.
      units: number of units in each stage; (3, 4, 23, 3) in RN101.
      normalization: normalization of the pixels, see `pixels.normalize`.
    """

    width: int = setting(64, at_least=2)
    units: tuple[int, ...] = (3, 4, 6, 3)
    normalization: str = setting("clip", one_of=pixels_lib.NORMALIZATIONS)


@dataclasses.dataclass(frozen=True)
class _Layers:
    """Convolutions with a batch normalization each, inside a module's compact method."""

    norm: Callable[..., BatchNorm]
    dtype: DTypeLike
    mode: Mode

    def conv(
        self,
        x: jax.Array,
        name: str,
        channels: int,
        size: int,
        stride: int = 1,
        scale_init: Callable = nn.initializers.ones,
    ) -> jax.Array:
        """[B, H, W, I] -> [B, ceil(H / stride), ceil(W / stride), channels]."""
        x = nn.Conv(
            channels, (size, size), strides=stride, padding=size // 2, use_bias=False,
            kernel_init=LINEAR["torch"], dtype=self.dtype, name=name,
        )(x)  # fmt: skip
        return self.norm(name=f"{name}_norm", scale_init=scale_init)(x, self.mode)


def _halve(x: jax.Array) -> jax.Array:
    return nn.avg_pool(x, (2, 2), strides=(2, 2))


class ModifiedBottleneck(nn.Module):
    """Reduce, 3x3, average pooling, expand, added to a shortcut that is pooled, too."""

    channels: int
    stride: int
    norm: Callable[..., BatchNorm]
    dtype: DTypeLike

    @nn.compact
    def __call__(self, inputs: jax.Array, mode: Mode) -> jax.Array:
        """[B, H, W, I] -> [B, floor(H / s), floor(W / s), 4 * channels]."""
        layers = _Layers(self.norm, self.dtype, mode)
        x = jax.nn.relu(layers.conv(inputs, "reduce", self.channels, 1))
        x = jax.nn.relu(layers.conv(x, "spatial", self.channels, 3))
        shortcut = inputs
        if self.stride == 2:
            x, shortcut = _halve(x), _halve(shortcut)
        # The unit starts as its shortcut.
        x = layers.conv(x, "expand", 4 * self.channels, 1, scale_init=nn.initializers.zeros)
        if self.stride == 2 or inputs.shape[-1] != x.shape[-1]:
            shortcut = layers.conv(shortcut, "shortcut", x.shape[-1], 1)
        return jax.nn.relu(shortcut + x)


class ModifiedResNet(ConvEncoder):
    """Pixels to the map of the last unit."""

    config: ModifiedResNetConfig

    @nn.compact
    def grid(self, pixels: jax.Array, mode: Mode) -> jax.Array:
        """Normalized pixels [B, H, W, 3] -> [B, H / 32, W / 32, 32 * width] with four stages."""
        layers, width = _Layers(self.norm, self.dtype, mode), self.config.width
        x = jax.nn.relu(layers.conv(pixels, "stem1", width // 2, 3, 2))
        x = jax.nn.relu(layers.conv(x, "stem2", width // 2, 3))
        x = _halve(jax.nn.relu(layers.conv(x, "stem3", width, 3)))
        unit = self.recomputed(ModifiedBottleneck)
        for stage, count in enumerate(self.config.units):
            for index in range(count):
                stride = 2 if stage and not index else 1
                x = unit(
                    width * 2**stage, stride, self.norm, self.dtype,
                    name=f"stage{stage + 1}_unit{index + 1}",
                )(x, mode)  # fmt: skip
        return x


def make_modified_resnet(config: ModifiedResNetConfig, devices: Devices) -> ModifiedResNet:
    """Returns a ResNet of CLIP for uint8 images."""
    norm = config.make_norm(devices, momentum=0.9, epsilon=1e-5, unbiased=True)
    return ModifiedResNet(config, norm)
