"""MobileNetV2 of any width, with batch normalization separate or folded into the weights.

Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks" (2018), with the details
of keras.applications, whose padding is TensorFlow's SAME.

Pixels are scaled to pixel / 127.5 - 1 (`normalization` "inception"), as the code that trained the
published weights does: TF-slim's `preprocessing/inception_preprocessing.py` and
`keras.applications.mobilenet_v2.preprocess_input`. Weights from a quantized .tflite file are
no exception: its metadata have the mean 127.5 and the standard deviation 127.5. The zero points 127
and 128 of such files are the nearest integers, which 8-bit inputs need.
"""

import dataclasses
from typing import ClassVar

import flax.linen as nn
import jax

from xmodal.core.config import setting
from xmodal.models.basics import Mode
from xmodal.models.encoders import depthwise as depthwise_lib
from xmodal.models.encoders import pixels as pixels_lib
from xmodal.models.encoders.encoder import ConvEncoder, ConvEncoderConfig, ConvNorm
from xmodal.models.encoders.mbconv import MBConv, Stage, scale_channels

STEM_CHANNELS = 32
STAGES = (
    Stage(kernel=3, blocks=1, channels=16, expand=1, stride=1),
    Stage(kernel=3, blocks=2, channels=24, expand=6, stride=2),
    Stage(kernel=3, blocks=3, channels=32, expand=6, stride=2),
    Stage(kernel=3, blocks=4, channels=64, expand=6, stride=2),
    Stage(kernel=3, blocks=3, channels=96, expand=6, stride=1),
    Stage(kernel=3, blocks=3, channels=160, expand=6, stride=2),
    Stage(kernel=3, blocks=1, channels=320, expand=6, stride=1),
)
HEAD_CHANNELS = 1280


class MobileNetV2(ConvEncoder):
    """Pixels to the map of the last convolution."""

    config: "MobileNetV2Config"
    norm_options: ClassVar = {"momentum": 0.999}

    @nn.compact
    def grid(self, pixels: jax.Array, mode: Mode) -> jax.Array:
        """Normalized pixels [B, H, W, 3] -> [B, ceil(H / 32), ceil(W / 32), C]."""
        width, norm = self.config.width, None if self.config.folded else self.norm
        depthwise = depthwise_lib.choose(self.config.depthwise, self.devices.platform)
        conv = ConvNorm(norm, self.dtype)
        stem = scale_channels(STEM_CHANNELS, width)
        x = jax.nn.relu6(conv(pixels, mode, "stem", stem, size=3, stride=2))
        block = self.recomputed(MBConv)
        for number, stage in enumerate(STAGES, start=1):
            for index in range(stage.blocks):
                x = block(
                    stage,
                    scale_channels(stage.channels, width),
                    stage.stride if index == 0 else 1,
                    depthwise,
                    norm,
                    jax.nn.relu6,
                    self.dtype,
                    name=f"stage{number}_block{index + 1}",
                )(x, mode)
        head = scale_channels(HEAD_CHANNELS, max(1.0, width))
        return jax.nn.relu6(conv(x, mode, "head", head))


@dataclasses.dataclass(frozen=True)
class MobileNetV2Config(ConvEncoderConfig):
    """Settings of MobileNetV2; see `ConvEncoderConfig` for the common ones.

    Attributes:
      width: channel multiplier; the last layer is never narrower than 1280.
      depthwise: "convolution", "shifted", or "auto" for the faster one on this backend.
      folded: convolutions have biases and nothing is normalized (published mobile weights).
    """

    width: float = setting(1.0, above=0)
    depthwise: str = setting("auto", one_of=depthwise_lib.NAMES)
    folded: bool = False
    normalization: str = setting("inception", one_of=pixels_lib.NORMALIZATIONS)
