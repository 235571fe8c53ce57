"""EfficientNet, from B0 to B7 and any width and depth between.

Tan and Le, "EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks" (2019),
with the details of tensorflow/tpu, models/official/efficientnet.
"""

import math
from collections.abc import Mapping
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from xmodal.config import UserError, lookup
from xmodal.models import depthwise as depthwise_lib
from xmodal.models import pixels
from xmodal.models.batch_norm import BatchNorm
from xmodal.models.embedding import Embedding
from xmodal.models.mbconv import CONV_INIT, MBConv, Stage, scale_channels
from xmodal.models.projection import project
from xmodal.models.tower import DTYPES, ONE_CPU, Devices, Tower

STEM_CHANNELS = 32
STAGES = (
    Stage(kernel=3, blocks=1, channels=16, expand=1, stride=1),
    Stage(kernel=3, blocks=2, channels=24, expand=6, stride=2),
    Stage(kernel=5, blocks=2, channels=40, expand=6, stride=2),
    Stage(kernel=3, blocks=3, channels=80, expand=6, stride=2),
    Stage(kernel=5, blocks=3, channels=112, expand=6, stride=1),
    Stage(kernel=5, blocks=4, channels=192, expand=6, stride=2),
    Stage(kernel=3, blocks=1, channels=320, expand=6, stride=1),
)
HEAD_CHANNELS = 1280

# Width and depth; the published resolutions are 224, 240, 260, 300, 380, 456, 528 and 600.
VARIANTS: Mapping[str, tuple[float, float]] = {
    "b0": (1.0, 1.0),
    "b1": (1.0, 1.1),
    "b2": (1.1, 1.2),
    "b3": (1.2, 1.4),
    "b4": (1.4, 1.8),
    "b5": (1.6, 2.2),
    "b6": (1.8, 2.6),
    "b7": (2.0, 3.1),
}


def scale_blocks(blocks: int, depth: float) -> int:
    """`blocks * depth`, rounded up."""
    return math.ceil(blocks * depth)


def drop_connect_rates(rate: float, depth: float, over: str = "blocks") -> list[float]:
    """The probability of dropping the branch of each block, growing linearly from 0.

    Args:
      rate: the probability that the growth aims at.
      depth: depth multiplier.
      over: "blocks" divides the block's index by the number of blocks (tensorflow/tpu);
        "base_blocks" by the number at depth 1, as tensorflow/models and the TF-Hub modules made
        from it do, so that deep variants exceed `rate`.
    """
    blocks = sum(scale_blocks(stage.blocks, depth) for stage in STAGES)
    base_blocks = sum(stage.blocks for stage in STAGES)
    divisor = lookup(
        "config.model.image.drop_connect_over",
        over,
        {"blocks": blocks, "base_blocks": base_blocks},
    )
    return [rate * index / divisor for index in range(blocks)]


class EfficientNet(nn.Module):
    """Pixels to the pooled features of the last convolution, and a projection if asked for."""

    width: float
    depth: float
    depthwise: depthwise_lib.Depthwise
    batch_groups: int
    drop_connect: float
    drop_connect_over: str
    normalization: str
    remat: bool
    dtype: DTypeLike
    projection: int | None

    @nn.compact
    def __call__(self, images: jax.Array, train: bool) -> Embedding:
        """uint8 [B, H, W, 3] -> vector [B, D]."""
        x = pixels.normalize(images, self.normalization).astype(self.dtype)
        x = nn.Conv(
            scale_channels(STEM_CHANNELS, self.width), (3, 3), strides=2, padding="SAME",
            use_bias=False, kernel_init=CONV_INIT, dtype=self.dtype, name="stem",
        )(x)  # fmt: skip
        norm = partial(BatchNorm, self.batch_groups)
        x = jax.nn.silu(norm(name="stem_norm")(x, train=train))
        block = nn.remat(MBConv, static_argnums=(2,)) if self.remat else MBConv
        rates = iter(drop_connect_rates(self.drop_connect, self.depth, self.drop_connect_over))
        for number, stage in enumerate(STAGES, start=1):
            for index in range(scale_blocks(stage.blocks, self.depth)):
                rate = next(rates)
                x = block(
                    stage,
                    scale_channels(stage.channels, self.width),
                    stage.stride if index == 0 else 1,
                    self.depthwise,
                    norm,
                    jax.nn.silu,
                    self.dtype,
                    squeeze_excite=True,
                    drop_connect=rate if train else 0.0,
                    name=f"stage{number}_block{index + 1}",
                )(x, train)
        x = nn.Conv(
            scale_channels(HEAD_CHANNELS, self.width), (1, 1),
            use_bias=False, kernel_init=CONV_INIT, dtype=self.dtype, name="head",
        )(x)  # fmt: skip
        x = jax.nn.silu(norm(name="head_norm")(x, train=train))
        vector = jnp.mean(x, axis=(1, 2), dtype=jnp.float32)
        return Embedding(project(vector, self.projection))


def make_tower(
    *,
    variant: str | None = None,
    width: float | None = None,
    depth: float | None = None,
    dtype: str = "float32",
    depthwise: str = "auto",
    batch_norm: str = "global",
    drop_connect: float = 0.2,
    drop_connect_over: str = "blocks",
    normalization: str = "imagenet",
    remat: bool = False,
    projection: int | None = None,
    devices: Devices = ONE_CPU,
) -> Tower:
    """EfficientNet as a tower of uint8 images [B, H, W, 3] of any size.

    Args:
      variant: a published pair of width and depth, "b0" to "b7"; else give `width` and `depth`.
      width: channel multiplier.
      depth: block multiplier.
      dtype: compute dtype; parameters and statistics are float32.
      depthwise: "convolution", "shifted", or "auto" for the faster one on this backend.
      batch_norm: statistics over the "global" batch or "per_device".
      drop_connect: probability of dropping a block's branch, reached at the last block.
      drop_connect_over: see `drop_connect_rates`.
      normalization: of the pixels, see `pixels.normalize`.
      remat: recompute every block in the backward pass instead of storing its inside.
      projection: width of a linear layer after the pooling; None for the pooled features.
      devices: their count is the number of groups of batch_norm="per_device".
    """
    if (variant is None) == (width is None and depth is None):
        raise UserError(
            f"EfficientNet takes a variant ({', '.join(VARIANTS)}) or a width and a depth, got "
            f"variant={variant}, width={width}, depth={depth}"
        )
    if variant is not None:
        width, depth = lookup("config.model.image.variant", variant, VARIANTS)
    counts = {"global": 1, "per_device": devices.count}
    groups = lookup("config.model.image.batch_norm", batch_norm, counts)
    lookup("config.model.image.normalization", normalization, pixels.NORMALIZATIONS)
    return Tower(
        EfficientNet(
            width=width or 1.0,
            depth=depth or 1.0,
            depthwise=depthwise_lib.choose(depthwise, devices.platform),
            batch_groups=groups,
            drop_connect=drop_connect,
            drop_connect_over=drop_connect_over,
            normalization=normalization,
            remat=remat,
            dtype=lookup("config.model.image.dtype", dtype, DTYPES),
            projection=projection,
        )
    )
