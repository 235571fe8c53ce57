"""ResNet-50, 101 and 152 (post-activation), as computed by four publishers of weights, and CLIP's.

He et al., "Deep Residual Learning for Image Recognition" (2015), and, with 3x3 convolutions in
groups, Xie et al., "Aggregated Residual Transformations" (2017), with the details of the code
that the weights were trained with: tensorflow/models research/slim (resnet_v1), keras.applications,
torchvision, and google-research/simclr (r50_1x_sk0).

CLIP's ResNets have three convolutions as stem, and average pooling instead of strides: Radford et
al., "Learning Transferable Visual Models From Natural Language Supervision" (2021), section 2.4,
and `ModifiedResNet` in openai/CLIP. The head `attention_pool` belongs to them.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import ClassVar, NamedTuple

import flax.linen as nn
import jax

from xmodal.core.config import lookup, setting
from xmodal.models.basics import Mode
from xmodal.models.batch_norm import BatchNorm
from xmodal.models.encoders import pixels as pixels_lib
from xmodal.models.encoders.encoder import ConvEncoder, ConvEncoderConfig, ConvNorm
from xmodal.models.initializers import LINEAR

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
    # TF-slim trains with a momentum of 0.997; TF-Hub's modules are fine-tuned with 0.99.
    "slim": Variant("spatial", True, "same", False, 1e-5, 0.99, "inception"),
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


class Bottleneck(nn.Module):
    """Reduce, 3x3, expand, each with a batch normalization, added to a shortcut.

    Attributes:
      channels: a quarter of the output channels; in a plain ResNet, those of the 3x3 convolution.
      stride: stride of the unit.
      cardinality: groups of the 3x3 convolution.
      group_width: channels of one of these groups in the first stage.
      reduces: whether the first convolution takes the stride, instead of the 3x3.
      conv: makes a convolution and its batch normalization.
    """

    channels: int
    stride: int
    cardinality: int
    group_width: int
    reduces: bool
    conv: ConvNorm

    @nn.compact
    def __call__(self, inputs: jax.Array, mode: Mode) -> jax.Array:
        """[B, H, W, I] -> [B, ceil(H/s), ceil(W/s), 4 * channels]."""
        conv, wide = self.conv, 4 * self.channels
        reduce = self.stride if self.reduces else 1
        width = self.channels * self.group_width // 64 * self.cardinality
        x = jax.nn.relu(conv(inputs, mode, "reduce", width, stride=reduce, padding=0))
        # Padding depends only on the kernel size; TensorFlow's SAME also depends on x.
        x = conv(
            x, mode, "spatial", width, size=3, stride=self.stride // reduce, padding=1,
            groups=self.cardinality,
        )  # fmt: skip
        x = conv(jax.nn.relu(x), mode, "expand", wide)
        if inputs.shape[-1] == wide:
            return jax.nn.relu(inputs[:, :: self.stride, :: self.stride] + x)
        return jax.nn.relu(conv(inputs, mode, "shortcut", wide, stride=self.stride, padding=0) + x)


class ResNet(ConvEncoder):
    """Pixels to the map of the last unit; 2048 channels."""

    config: "ResNetConfig"

    @property
    def norm(self) -> Callable[..., BatchNorm]:
        """See `ConvEncoder`."""
        kind = VARIANTS[self.config.variant]
        return self.config.make_norm(self.devices, momentum=kind.momentum, epsilon=kind.epsilon)

    @nn.compact
    def grid(self, pixels: jax.Array, mode: Mode) -> jax.Array:
        """Normalized pixels [B, H, W, 3] -> [B, ceil(H / 32), ceil(W / 32), 2048]."""
        config, variant = self.config, VARIANTS[self.config.variant]
        conv = ConvNorm(self.norm, self.dtype, bias=variant.bias)
        x = jax.nn.relu(conv(pixels, mode, "stem", 64, size=7, stride=2, padding=3))
        paddings = {
            "same": "SAME",
            "symmetric": [(1, 1), (1, 1)],
            "end": [(0, 1 - side % 2) for side in x.shape[1:3]],
        }
        padding = paddings[variant.pool_padding]
        x = nn.max_pool(x, (3, 3), strides=(2, 2), padding=padding)
        unit = self.recomputed(Bottleneck)
        for stage, strides in enumerate(unit_strides(config.units, variant.stride_last)):
            for index, stride in enumerate(strides):
                x = unit(
                    64 * 2**stage, stride, config.cardinality, config.group_width,
                    variant.stride_conv == "reduce", conv, name=f"stage{stage + 1}_unit{index + 1}",
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

    def __post_init__(self) -> None:
        lookup("config.model.image.encoder.depth", str(self.depth), DEPTHS)
        if self.normalization is None:
            object.__setattr__(self, "normalization", VARIANTS[self.variant].normalization)

    @property
    def units(self) -> tuple[int, ...]:
        """Number of units in each of the four stages."""
        return DEPTHS[str(self.depth)]


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


def _halve(x: jax.Array) -> jax.Array:
    return nn.avg_pool(x, (2, 2), strides=(2, 2))


class ModifiedBottleneck(nn.Module):
    """Reduce, 3x3, average pooling, expand, added to a shortcut that is pooled likewise."""

    channels: int
    stride: int
    conv: ConvNorm

    @nn.compact
    def __call__(self, inputs: jax.Array, mode: Mode) -> jax.Array:
        """[B, H, W, I] -> [B, floor(H / s), floor(W / s), 4 * channels]."""
        conv, wide = self.conv, 4 * self.channels
        x = jax.nn.relu(conv(inputs, mode, "reduce", self.channels))
        x = jax.nn.relu(conv(x, mode, "spatial", self.channels, size=3, padding=1))
        shortcut = inputs
        if self.stride == 2:
            x, shortcut = _halve(x), _halve(shortcut)
        # The unit starts as its shortcut.
        x = conv(x, mode, "expand", wide, scale_init=nn.initializers.zeros)
        if self.stride == 2 or inputs.shape[-1] != wide:
            shortcut = conv(shortcut, mode, "shortcut", wide)
        return jax.nn.relu(shortcut + x)


class ModifiedResNet(ConvEncoder):
    """Pixels to the map of the last unit."""

    config: ModifiedResNetConfig
    norm_options: ClassVar = {"momentum": 0.9, "epsilon": 1e-5, "unbiased": True}

    @nn.compact
    def grid(self, pixels: jax.Array, mode: Mode) -> jax.Array:
        """Normalized pixels [B, H, W, 3] -> [B, H / 32, W / 32, 32 * width] with four stages."""
        conv, width = ConvNorm(self.norm, self.dtype, LINEAR["torch"]), self.config.width
        x = jax.nn.relu(conv(pixels, mode, "stem1", width // 2, size=3, stride=2, padding=1))
        x = jax.nn.relu(conv(x, mode, "stem2", width // 2, size=3, padding=1))
        x = _halve(jax.nn.relu(conv(x, mode, "stem3", width, size=3, padding=1)))
        unit = self.recomputed(ModifiedBottleneck)
        for stage, count in enumerate(self.config.units):
            for index in range(count):
                stride, name = 2 if stage and not index else 1, f"stage{stage + 1}_unit{index + 1}"
                x = unit(width * 2**stage, stride, conv, name=name)(x, mode)
        return x
