"""ResNet-50, 101 and 152 (post-activation), as computed by each of four publishers of weights.

He et al., "Deep Residual Learning for Image Recognition" (2015), and, with 3x3 convolutions in
groups, Xie et al., "Aggregated Residual Transformations" (2017), with the details of the code
that the weights were trained with: tensorflow/models research/slim (resnet_v1), keras.applications,
torchvision, and google-research/simclr (r50_1x_sk0).
"""

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import flax.linen as nn
import jax
from jax.typing import DTypeLike

from xmodal.base.config import lookup, setting
from xmodal.models.batch_norm import BatchNorm
from xmodal.models.devices import Devices
from xmodal.models.encoders import pixels as pixels_lib
from xmodal.models.encoders.image_encoder import ConvEncoder, ConvEncoderConfig
from xmodal.models.initializers import CONV
from xmodal.models.mode import Mode

# Units of the four stages, by the number of layers.
DEPTHS: Mapping[str, tuple[int, ...]] = {
    "50": (3, 4, 6, 3),
    "101": (3, 4, 23, 3),
    "152": (3, 8, 36, 3),
}


class Variant(NamedTuple):
    """The differences between the published networks with the same name.

    Attributes:
      stride_conv: the convolution of a unit that takes its stride.
      stride_last: whether the last unit of a stage has the stride to the next stage; otherwise the
        first unit of the next stage has it.
      pool_padding: padding of the stem's max pooling: "symmetric", TensorFlow's "same", or only at
        the "end", as far as a window needs it (torch's ceil mode).
      bias: whether convolutions have a bias although a batch normalization follows.
      epsilon: epsilon of the batch normalizations.
      momentum: momentum of the batch normalizations.
      normalization: normalization of the pixels.
    """

    stride_conv: str
    stride_last: bool
    pool_padding: str
    bias: bool
    epsilon: float
    momentum: float
    normalization: str


VARIANTS: Mapping[str, Variant] = {
    "slim": Variant("spatial", True, "same", False, 1e-5, 0.997, "inception"),
    "keras": Variant("reduce", False, "symmetric", True, 1.001e-5, 0.99, "caffe"),
    "torchvision": Variant("spatial", False, "symmetric", False, 1e-5, 0.9, "torch"),
    # torchvision's weights in a network with the strides and pooling of Caffe.
    "vse_infinity": Variant("reduce", False, "end", False, 1e-5, 0.9, "torch"),
    "simclr": Variant("spatial", False, "same", False, 1e-5, 0.9, "unit"),
}


def unit_strides(units: tuple[int, ...], stride_last: bool) -> list[list[int]]:
    """Returns the stride of every unit of every stage; the map is halved between the stages."""
    strides = [[1] * count for count in units]
    for stage in range(len(units) - 1):
        if stride_last:
            strides[stage][-1] = 2
        else:
            strides[stage + 1][0] = 2
    return strides


def _subsample(x: jax.Array, stride: int) -> jax.Array:
    return x[:, ::stride, ::stride]


class Bottleneck(nn.Module):
    """Reduce, 3x3, expand, each with a batch normalization, added to a shortcut.

    Attributes:
      channels: a quarter of the output channels; in a plain ResNet, those of the 3x3 convolution.
      stride: stride of the unit.
      cardinality: groups of the 3x3 convolution.
      group_width: channels of one of these groups in the first stage.
      variant: see `Variant`.
      norm: makes a batch normalization, given its `name`.
      dtype: compute dtype.
    """

    channels: int
    stride: int
    cardinality: int
    group_width: int
    variant: Variant
    norm: Callable[..., BatchNorm]
    dtype: DTypeLike

    @nn.compact
    def __call__(self, inputs: jax.Array, mode: Mode) -> jax.Array:
        """[B, H, W, I] -> [B, ceil(H/s), ceil(W/s), 4 * channels]."""
        conv = partial(_conv_norm, self.variant.bias, self.norm, self.dtype, mode)
        reduce = self.stride if self.variant.stride_conv == "reduce" else 1
        width = self.channels * self.group_width // 64 * self.cardinality
        x = jax.nn.relu(conv(inputs, "reduce", width, 1, reduce))
        x = conv(x, "spatial", width, 3, self.stride // reduce, groups=self.cardinality)
        x = jax.nn.relu(x)
        x = conv(x, "expand", 4 * self.channels, 1, 1)
        if inputs.shape[-1] == x.shape[-1]:
            return jax.nn.relu(_subsample(inputs, self.stride) + x)
        return jax.nn.relu(conv(inputs, "shortcut", x.shape[-1], 1, self.stride) + x)


def _conv_norm(
    bias: bool,
    norm: Callable[..., BatchNorm],
    dtype: DTypeLike,
    mode: Mode,
    x: jax.Array,
    name: str,
    channels: int,
    size: int,
    stride: int,
    groups: int = 1,
) -> jax.Array:
    # In all four, padding depends only on the kernel size; TensorFlow's SAME also depends on x.
    x = nn.Conv(
        channels, (size, size), strides=stride, padding=size // 2,
        feature_group_count=groups, use_bias=bias, kernel_init=CONV, dtype=dtype, name=name,
    )(x)  # fmt: skip
    return norm(name=f"{name}_norm")(x, mode)


class ResNet(ConvEncoder):
    """Pixels to the map of the last unit.

    Attributes:
      units: number of units in each of the four stages.
    """

    config: "ResNetConfig"
    units: tuple[int, ...]

    @nn.compact
    def grid(self, pixels: jax.Array, mode: Mode) -> jax.Array:
        """Normalized pixels [B, H, W, 3] -> [B, ceil(H / 32), ceil(W / 32), 2048]."""
        config, variant = self.config, VARIANTS[self.config.variant]
        conv = partial(_conv_norm, variant.bias, self.norm, self.dtype, mode)
        x = jax.nn.relu(conv(pixels, "stem", 64, 7, 2))
        paddings = {
            "same": "SAME",
            "symmetric": [(1, 1), (1, 1)],
            "end": [(0, 1 - side % 2) for side in x.shape[1:3]],
        }
        padding = paddings[variant.pool_padding]
        x = nn.max_pool(x, (3, 3), strides=(2, 2), padding=padding)
        unit = self.recomputed(Bottleneck)
        for stage, strides in enumerate(unit_strides(self.units, variant.stride_last)):
            for index, stride in enumerate(strides):
                x = unit(
                    64 * 2**stage, stride, config.cardinality, config.group_width,
                    variant, self.norm, self.dtype,
                    name=f"stage{stage + 1}_unit{index + 1}",
                )(x, mode)  # fmt: skip
        return x


@dataclasses.dataclass(frozen=True)
class ResNetConfig(ConvEncoderConfig):
    """Settings of ResNet; see `ConvEncoderConfig` for the common ones.

    Attributes:
      depth: 50, 101 or 152 layers.
      cardinality: groups of the 3x3 convolutions; 1 except for ResNeXt, such as 32 in ResNeXt-101
        "32x8d".
      group_width: channels of such a group in the first stage; 64 except for ResNeXt, 8 in "32x8d".
      variant: publisher of matching weights: "slim" (TF-slim's and TF-Hub's v1), "keras",
        "torchvision", "vse_infinity" (torchvision's weights with strides and pooling as in Caffe's
        networks) or "simclr" (SimCLRv2 r50_1x_sk0).
      normalization: pixel normalization, see `pixels.normalize`; None for that of the variant's
        published weights. TF-slim's checkpoints of 2016 need "vgg", TF-Hub's do not.
    """

    depth: int = 50
    cardinality: int = setting(1, at_least=1)
    group_width: int = setting(64, at_least=1)
    variant: str = setting("torchvision", one_of=VARIANTS)
    normalization: str | None = setting(None, one_of=pixels_lib.NORMALIZATIONS)


def make_resnet(config: ResNetConfig, devices: Devices) -> ResNet:
    """Returns ResNet for uint8 images of any size; 2048 channels."""
    variant = VARIANTS[config.variant]
    norm = config.make_norm(devices, momentum=variant.momentum, epsilon=variant.epsilon)
    normalization = config.normalization or variant.normalization
    units = lookup("config.model.image.encoder.depth", str(config.depth), DEPTHS)
    return ResNet(dataclasses.replace(config, normalization=normalization), norm, units)
