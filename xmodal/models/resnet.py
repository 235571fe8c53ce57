"""ResNet-50, 101 and 152 (post-activation), as each of four publishers of weights computes it.

He et al., "Deep Residual Learning for Image Recognition" (2015), with the details of the code
that the weights were trained with: tensorflow/models research/slim (resnet_v1), keras.applications,
torchvision, and google-research/simclr (r50_1x_sk0).
"""

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from xmodal.config import lookup
from xmodal.models import pixels
from xmodal.models.batch_norm import BatchNorm
from xmodal.models.embedding import Embedding
from xmodal.models.projection import project
from xmodal.models.tower import DTYPES, ONE_CPU, Devices, Tower

# Units of the four stages, by the number of layers.
DEPTHS: Mapping[str, tuple[int, ...]] = {
    "50": (3, 4, 6, 3),
    "101": (3, 4, 23, 3),
    "152": (3, 8, 36, 3),
}

_CONV_INIT = nn.initializers.variance_scaling(2.0, "fan_out", "normal")


class Variant(NamedTuple):
    """Where the published networks of one name differ.

    Attributes:
      stride_conv: the convolution of a unit that takes its stride.
      stride_last: the last unit of a stage takes the stride to the next one; else the first of
        the next stage does.
      pool_padding: of the stem's max pooling.
      bias: whether convolutions have one, though a batch normalisation follows.
      epsilon: of the batch normalisations.
      momentum: of the batch normalisations.
      normalization: of the pixels.
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
    "simclr": Variant("spatial", False, "same", False, 1e-5, 0.9, "unit"),
}


def unit_strides(units: tuple[int, ...], stride_last: bool) -> list[list[int]]:
    """The stride of every unit of every stage; the map is halved between the stages."""
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
    """Reduce, 3x3, expand, each with a batch normalisation, beside a shortcut.

    Attributes:
      channels: of the 3x3 convolution; the output has four times as many.
      stride: of the unit.
      variant: see `Variant`.
      batch_groups: groups of the batch normalisation.
      dtype: compute dtype.
    """

    channels: int
    stride: int
    variant: Variant
    batch_groups: int
    dtype: DTypeLike

    @nn.compact
    def __call__(self, inputs: jax.Array, train: bool) -> jax.Array:
        """[B, H, W, I] -> [B, ceil(H/s), ceil(W/s), 4 * channels]."""
        conv = partial(_conv_norm, self.variant, self.batch_groups, self.dtype, train)
        reduce = self.stride if self.variant.stride_conv == "reduce" else 1
        x = jax.nn.relu(conv(inputs, "reduce", self.channels, 1, reduce))
        x = jax.nn.relu(conv(x, "spatial", self.channels, 3, self.stride // reduce))
        x = conv(x, "expand", 4 * self.channels, 1, 1)
        if inputs.shape[-1] == x.shape[-1]:
            return jax.nn.relu(_subsample(inputs, self.stride) + x)
        return jax.nn.relu(conv(inputs, "shortcut", x.shape[-1], 1, self.stride) + x)


def _conv_norm(
    variant: Variant,
    batch_groups: int,
    dtype: DTypeLike,
    train: bool,
    x: jax.Array,
    name: str,
    channels: int,
    size: int,
    stride: int,
) -> jax.Array:
    # All four pad by the size of the kernel alone; TensorFlow's SAME would also look at x.
    x = nn.Conv(
        channels, (size, size), strides=stride, padding=size // 2,
        use_bias=variant.bias, kernel_init=_CONV_INIT, dtype=dtype, name=name,
    )(x)  # fmt: skip
    norm = BatchNorm(batch_groups, variant.momentum, variant.epsilon, name=f"{name}_norm")
    return norm(x, train=train)


class ResNet(nn.Module):
    """Pixels to the pooled features of the last unit, and a projection if asked for."""

    units: tuple[int, ...]
    variant: Variant
    normalization: str
    batch_groups: int
    remat: bool
    dtype: DTypeLike
    projection: int | None

    @nn.compact
    def __call__(self, images: jax.Array, train: bool) -> Embedding:
        """uint8 [B, H, W, 3] -> vector [B, D]."""
        x = pixels.normalize(images, self.normalization).astype(self.dtype)
        conv = partial(_conv_norm, self.variant, self.batch_groups, self.dtype, train)
        x = jax.nn.relu(conv(x, "stem", 64, 7, 2))
        padding = "SAME" if self.variant.pool_padding == "same" else [(1, 1), (1, 1)]
        x = nn.max_pool(x, (3, 3), strides=(2, 2), padding=padding)
        unit = nn.remat(Bottleneck, static_argnums=(2,)) if self.remat else Bottleneck
        for stage, strides in enumerate(unit_strides(self.units, self.variant.stride_last)):
            for index, stride in enumerate(strides):
                x = unit(
                    64 * 2**stage, stride, self.variant, self.batch_groups, self.dtype,
                    name=f"stage{stage + 1}_unit{index + 1}",
                )(x, train)  # fmt: skip
        vector = jnp.mean(x, axis=(1, 2), dtype=jnp.float32)
        return Embedding(project(vector, self.projection))


def make_tower(
    *,
    depth: int = 50,
    variant: str = "torchvision",
    normalization: str | None = None,
    dtype: str = "float32",
    batch_norm: str = "global",
    remat: bool = False,
    projection: int | None = None,
    devices: Devices = ONE_CPU,
) -> Tower:
    """ResNet as a tower of uint8 images [B, H, W, 3] of any size; 2048 pooled features.

    Args:
      depth: 50, 101 or 152 layers.
      variant: whose weights fit: "slim" (TF-slim's and TF-Hub's v1), "keras", "torchvision" or
        "simclr" (SimCLRv2 r50_1x_sk0).
      normalization: of the pixels, see `pixels.normalize`; None for what the variant's published
        weights were trained with. TF-slim's checkpoints of 2016 want "vgg", TF-Hub's do not.
      dtype: compute dtype; parameters and statistics are float32.
      batch_norm: statistics over the "global" batch or "per_device".
      remat: recompute every unit in the backward pass instead of storing its inside.
      projection: width of a linear layer after the pooling; None for the pooled features.
      devices: their count is the number of groups of batch_norm="per_device".
    """
    row = lookup("config.model.image.variant", variant, VARIANTS)
    normalization = normalization or row.normalization
    lookup("config.model.image.normalization", normalization, pixels.NORMALIZATIONS)
    counts = {"global": 1, "per_device": devices.count}
    return Tower(
        ResNet(
            units=lookup("config.model.image.depth", str(depth), DEPTHS),
            variant=row,
            normalization=normalization,
            batch_groups=lookup("config.model.image.batch_norm", batch_norm, counts),
            remat=remat,
            dtype=lookup("config.model.image.dtype", dtype, DTYPES),
            projection=projection,
        )
    )
