"""EfficientNet, from B0 to B7, with any width and depth in between, and Lite0 to Lite4.

Tan and Le, "EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks" (2019),
with the details of tensorflow/tpu, models/official/efficientnet; Lite: its folder `lite`.
"""

import dataclasses
import functools
import math
from collections.abc import Mapping

import flax.linen as nn
import jax

from xmodal.base.config import UserError, lookup, setting
from xmodal.models.devices import Devices
from xmodal.models.encoders import depthwise as depthwise_lib
from xmodal.models.encoders import gating, packing
from xmodal.models.encoders.image_encoder import ConvEncoder, ConvEncoderConfig
from xmodal.models.encoders.mbconv import MBConv, Stage, scale_channels
from xmodal.models.initializers import CONV
from xmodal.models.mode import Mode

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
# Stage and block after which maps are not packed: the last to read a fourth of the resolution.
LAST_PACKED = (3, 0)

# Width and depth; the published resolutions are 224, 240, 260, 300, 380, 456, 528 and 600; of Lite
# 224, 240, 260, 280 and 300.
VARIANTS: Mapping[str, tuple[float, float]] = {
    "b0": (1.0, 1.0),
    "b1": (1.0, 1.1),
    "b2": (1.1, 1.2),
    "b3": (1.2, 1.4),
    "b4": (1.4, 1.8),
    "b5": (1.6, 2.2),
    "b6": (1.8, 2.6),
    "b7": (2.0, 3.1),
    "lite0": (1.0, 1.0),
    "lite1": (1.0, 1.1),
    "lite2": (1.1, 1.2),
    "lite3": (1.2, 1.4),
    "lite4": (1.4, 1.8),
}


def scale_blocks(blocks: int, depth: float) -> int:
    """Returns `blocks * depth`, rounded up."""
    return math.ceil(blocks * depth)


def count_blocks(depth: float, lite: bool = False) -> list[int]:
    """Returns the number of blocks of every stage; Lite does not scale the first and the last."""
    blocks = [scale_blocks(stage.blocks, depth) for stage in STAGES]
    if lite:
        blocks[0], blocks[-1] = STAGES[0].blocks, STAGES[-1].blocks
    return blocks


def drop_connect_rates(
    rate: float, depth: float, over: str = "blocks", lite: bool = False
) -> list[float]:
    """Returns the probability of dropping the branch of each block, which grows linearly from 0.

    Args:
      rate: the probability at a block after the last one.
      depth: depth multiplier.
      over: "blocks" divides the block's index by the number of blocks (tensorflow/tpu);
        "base_blocks" by the number at depth 1, as tensorflow/models and the TF-Hub modules made
        from it do, so that deep variants exceed `rate`.
      lite: see `count_blocks`.
    """
    blocks = sum(count_blocks(depth, lite))
    base_blocks = sum(stage.blocks for stage in STAGES)
    divisor = lookup(
        "config.model.image.encoder.drop_connect_over",
        over,
        {"blocks": blocks, "base_blocks": base_blocks},
    )
    return [rate * index / divisor for index in range(blocks)]


class EfficientNet(ConvEncoder):
    """Pixels to the map of the last convolution.

    Lite has ReLU6 in place of SiLU, no squeeze-excite, a stem and a head of fixed width, and a
    first and a last stage of fixed depth.

    Attributes:
      devices: devices that the batch is split over, which decide between equal computations.
    """

    config: "EfficientNetConfig"
    devices: Devices

    @nn.compact
    def grid(self, pixels: jax.Array, mode: Mode) -> jax.Array:
        """Normalized pixels [B, H, W, 3] -> [B, ceil(H / 32), ceil(W / 32), C]."""
        config, platform, lite = self.config, self.devices.platform, self.config.is_lite
        products, fuse = packing.prefers_products(platform), gating.prefers_fusion(platform)
        depthwise = depthwise_lib.choose(config.depthwise, platform)
        activation = jax.nn.relu6 if lite else jax.nn.silu
        width, depth = config.multipliers
        end_width = 1.0 if lite else width
        packed = packing.choose(config.pack, platform)
        x = packing.pack(pixels, packing.fit(packed, pixels.shape[0], self.devices.count))
        stem = scale_channels(STEM_CHANNELS, end_width)
        conv = functools.partial(packing.Conv, kernel_init=CONV, dtype=self.dtype)
        # Of the means, from here on; see `BatchNorm`.
        estimate = packing.estimate_mean(x) if fuse else None
        x, estimate = conv(stem, 3, stride=2, name="stem")(x, estimate)
        norm = self.norm(name="stem_norm")
        x = activation(norm(x, mode, estimate=estimate))
        estimate = norm.output_mean(activation) if fuse else None
        block = self.recomputed(MBConv)
        rates = iter(drop_connect_rates(config.drop_connect, depth, config.drop_connect_over, lite))
        blocks = count_blocks(depth, lite)
        for number, (stage, count) in enumerate(zip(STAGES, blocks, strict=True), start=1):
            for index in range(count):
                rate = next(rates)
                x, estimate = block(
                    stage,
                    scale_channels(stage.channels, width),
                    stage.stride if index == 0 else 1,
                    depthwise,
                    self.norm,
                    activation,
                    self.dtype,
                    squeeze_excite=not lite,
                    drop_connect=rate if mode.drops else 0.0,
                    products=products,
                    name=f"stage{number}_block{index + 1}",
                )(x, mode, estimate)
                if (number, index) == LAST_PACKED:
                    x = packing.unpack(x)
        head = scale_channels(HEAD_CHANNELS, end_width)
        x, estimate = conv(head, 1, product=products, name="head")(x, estimate)
        return activation(self.norm(name="head_norm")(x, mode, estimate=estimate))


@dataclasses.dataclass(frozen=True)
class EfficientNetConfig(ConvEncoderConfig):
    """Settings of EfficientNet; see `ConvEncoderConfig` for the common ones.

    Attributes:
      variant: a published pair of width and depth, "b0" to "b7", or "lite0" to "lite4"; else set
        `width` and `depth`.
      width: channel multiplier.
      depth: block multiplier.
      depthwise: "convolution", "shifted", or "auto" for the faster one on this backend.
      drop_connect: probability of dropping a block's branch, reached at the last block.
      drop_connect_over: see `drop_connect_rates`.
      momentum: share of the running statistics that a training step keeps. With 0.99, the first
        values still have a weight of 30 % after 120 steps.
      pack: number of images packed into the channels of the first stages, see `packing`: saves
        traffic without changing values; None for 4 on TPUs and 1 elsewhere.
    """

    variant: str | None = setting(None, one_of=VARIANTS)
    width: float | None = setting(None, above=0)
    depth: float | None = setting(None, above=0)
    depthwise: str = setting("auto", one_of=depthwise_lib.NAMES)
    drop_connect: float = setting(0.2, at_least=0, below=1)
    drop_connect_over: str = setting("blocks", one_of=("blocks", "base_blocks"))
    momentum: float = setting(0.99, at_least=0, below=1)
    pack: int | None = setting(None, at_least=1)

    @property
    def multipliers(self) -> tuple[float, float]:
        """Width and depth."""
        if self.variant is not None:
            return VARIANTS[self.variant]
        return self.width or 1.0, self.depth or 1.0

    @property
    def is_lite(self) -> bool:
        """Whether it is one of the variants of Lite."""
        return (self.variant or "").startswith("lite")


def make_efficientnet(config: EfficientNetConfig, devices: Devices) -> EfficientNet:
    """Returns EfficientNet for uint8 images of any size.

    Raises:
      UserError: the config has both a variant and a width or depth, or neither.
    """
    width, depth = config.width, config.depth
    if (config.variant is None) == (width is None and depth is None):
        raise UserError(
            f"EfficientNet takes a variant ({', '.join(VARIANTS)}) or a width and a depth, got "
            f"variant={config.variant}, width={width}, depth={depth}."
        )
    return EfficientNet(config, config.make_norm(devices, momentum=config.momentum), devices)
