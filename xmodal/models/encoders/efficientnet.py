"""EfficientNet, from B0 to B7, with any width and depth in between, and Lite0 to Lite4.

Tan and Le, "EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks" (2019),
with the details of tensorflow/tpu, models/official/efficientnet; Lite: its folder `lite`.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import flax.linen as nn
import jax

from xmodal.core.config import setting
from xmodal.core.errors import UserError
from xmodal.models.basics import Mode
from xmodal.models.batch_norm import BatchNorm
from xmodal.models.encoders import depthwise as depthwise_lib
from xmodal.models.encoders import fused_mbconv
from xmodal.models.encoders.encoder import ConvEncoder, ConvEncoderConfig, ConvNorm
from xmodal.models.encoders.mbconv import MBConv, Stage, pointwise, scale_channels

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

# Width and depth; the published resolutions are 224, 240, 260, 300, 380, 456, 528 and 600; of Lite
# 224, 240, 260, 280 and 300.
_SCALES = (
    (1.0, 1.0), (1.0, 1.1), (1.1, 1.2), (1.2, 1.4), (1.4, 1.8), (1.6, 2.2), (1.8, 2.6), (2.0, 3.1)
)  # fmt: skip
VARIANTS: Mapping[str, tuple[float, float]] = {
    **{f"b{number}": scale for number, scale in enumerate(_SCALES)},
    **{f"lite{number}": scale for number, scale in enumerate(_SCALES[:5])},
}


def count_blocks(depth: float, lite: bool = False) -> list[int]:
    """Returns the number of blocks of every stage; Lite does not scale the first and the last."""
    blocks = [math.ceil(stage.blocks * depth) for stage in STAGES]
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
    divisor = blocks if over == "blocks" else sum(stage.blocks for stage in STAGES)
    return [rate * index / divisor for index in range(blocks)]


class EfficientNet(ConvEncoder):
    """Pixels to the map of the last convolution.

    Lite has ReLU6 in place of SiLU, no squeeze-excite, a stem and a head of fixed width, and a
    first and a last stage of fixed depth.
    """

    config: "EfficientNetConfig"

    @property
    def norm(self) -> Callable[..., BatchNorm]:
        """See `ConvEncoder`."""
        return self.config.make_norm(self.devices, momentum=self.config.momentum)

    @nn.compact
    def grid(self, pixels: jax.Array, mode: Mode) -> jax.Array:
        """Normalized pixels [B, H, W, 3] -> [B, ceil(H / 32), ceil(W / 32), C]."""
        if self.fused:
            return fused_mbconv.grid(self, pixels, mode)
        stem, head = self.end_channels
        conv = ConvNorm(self.norm, self.dtype)
        x = self.activation(conv(pixels, mode, "stem", stem, size=3, stride=2))
        block = self.recomputed(MBConv)
        for options in self.blocks(mode):
            x = block(**options)(x, mode)
        x = pointwise(head, self.dtype, "head")(x)
        return self.activation(self.norm(name="head_norm")(x, mode))

    @property
    def fused(self) -> bool:
        """Whether the blocks are those of `fused_mbconv`."""
        form = self.config.form
        return form == "fused" or (form == "auto" and self.devices.platform == "tpu")

    @property
    def activation(self) -> Callable[[jax.Array], jax.Array]:
        """The activation of all blocks."""
        return jax.nn.relu6 if self.config.is_lite else jax.nn.silu

    @property
    def end_channels(self) -> tuple[int, int]:
        """Channels of the stem and of the head."""
        width = 1.0 if self.config.is_lite else self.config.multipliers[0]
        return scale_channels(STEM_CHANNELS, width), scale_channels(HEAD_CHANNELS, width)

    def blocks(self, mode: Mode) -> Iterator[dict[str, Any]]:
        """Yields the attributes of every `MBConv`, in order."""
        config, lite = self.config, self.config.is_lite
        width, depth = config.multipliers
        rates = iter(drop_connect_rates(config.drop_connect, depth, config.drop_connect_over, lite))
        blocks = count_blocks(depth, lite)
        for number, (stage, count) in enumerate(zip(STAGES, blocks, strict=True), start=1):
            for index in range(count):
                rate = next(rates)
                yield {
                    "stage": stage,
                    "channels": scale_channels(stage.channels, width),
                    "stride": stage.stride if index == 0 else 1,
                    "depthwise": depthwise_lib.choose(config.depthwise, self.devices.platform),
                    "norm": self.norm,
                    "activation": self.activation,
                    "dtype": self.dtype,
                    "squeeze_excite": not lite,
                    "drop_connect": rate if mode.drops else 0.0,
                    "name": f"stage{number}_block{index + 1}",
                }


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
      form: "plain" blocks, or "fused" ones with the same values and less memory traffic on TPUs,
        see `fused_mbconv`; "auto" is "fused" on TPUs and "plain" elsewhere.
    """

    variant: str | None = setting(None, one_of=VARIANTS)
    width: float | None = setting(None, above=0)
    depth: float | None = setting(None, above=0)
    depthwise: str = setting("auto", one_of=depthwise_lib.NAMES)
    drop_connect: float = setting(0.2, at_least=0, below=1)
    drop_connect_over: str = setting("blocks", one_of=("blocks", "base_blocks"))
    momentum: float = setting(0.99, at_least=0, below=1)
    form: str = setting("auto", one_of=("auto", "plain", "fused"))

    def __post_init__(self) -> None:
        if (self.variant is None) == (self.width is None and self.depth is None):
            raise UserError(
                f"EfficientNet takes a variant ({', '.join(VARIANTS)}) or a width and a depth, got "
                f"variant={self.variant}, width={self.width}, depth={self.depth}."
            )

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
