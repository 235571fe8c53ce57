"""MobileNetV2 of any width, with batch normalisation or with the weights it was folded into.

Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks" (2018), with the details
of keras.applications, whose padding is TensorFlow's SAME.
"""

from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from xmodal.config import lookup
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
    Stage(kernel=3, blocks=3, channels=32, expand=6, stride=2),
    Stage(kernel=3, blocks=4, channels=64, expand=6, stride=2),
    Stage(kernel=3, blocks=3, channels=96, expand=6, stride=1),
    Stage(kernel=3, blocks=3, channels=160, expand=6, stride=2),
    Stage(kernel=3, blocks=1, channels=320, expand=6, stride=1),
)
HEAD_CHANNELS = 1280


class MobileNetV2(nn.Module):
    """Pixels to the pooled features of the last convolution, and a projection if asked for."""

    width: float
    depthwise: depthwise_lib.Depthwise
    batch_groups: int | None
    normalization: str
    remat: bool
    dtype: DTypeLike
    projection: int | None

    @nn.compact
    def __call__(self, images: jax.Array, train: bool) -> Embedding:
        """uint8 [B, H, W, 3] -> vector [B, D]."""
        norm = None
        if self.batch_groups is not None:
            norm = partial(BatchNorm, self.batch_groups, momentum=0.999)
        x = pixels.normalize(images, self.normalization).astype(self.dtype)
        x = nn.Conv(
            scale_channels(STEM_CHANNELS, self.width), (3, 3), strides=2, padding="SAME",
            use_bias=norm is None, kernel_init=CONV_INIT, dtype=self.dtype, name="stem",
        )(x)  # fmt: skip
        x = jax.nn.relu6(norm(name="stem_norm")(x, train=train) if norm else x)
        block = nn.remat(MBConv, static_argnums=(2,)) if self.remat else MBConv
        for number, stage in enumerate(STAGES, start=1):
            for index in range(stage.blocks):
                x = block(
                    stage,
                    scale_channels(stage.channels, self.width),
                    stage.stride if index == 0 else 1,
                    self.depthwise,
                    norm,
                    jax.nn.relu6,
                    self.dtype,
                    name=f"stage{number}_block{index + 1}",
                )(x, train)
        x = nn.Conv(
            scale_channels(HEAD_CHANNELS, max(1.0, self.width)), (1, 1),
            use_bias=norm is None, kernel_init=CONV_INIT, dtype=self.dtype, name="head",
        )(x)  # fmt: skip
        x = jax.nn.relu6(norm(name="head_norm")(x, train=train) if norm else x)
        vector = jnp.mean(x, axis=(1, 2), dtype=jnp.float32)
        return Embedding(project(vector, self.projection))


def make_tower(
    *,
    width: float = 1.0,
    normalization: str = "inception",
    dtype: str = "float32",
    depthwise: str = "auto",
    batch_norm: str = "global",
    remat: bool = False,
    projection: int | None = None,
    devices: Devices = ONE_CPU,
) -> Tower:
    """MobileNetV2 as a tower of uint8 images [B, H, W, 3] of any size; 1280 pooled features.

    Args:
      width: channel multiplier; the last layer is never narrower than 1280.
      normalization: of the pixels, see `pixels.normalize`.
      dtype: compute dtype; parameters and statistics are float32.
      depthwise: "convolution", "shifted", or "auto" for the faster one on this backend.
      batch_norm: statistics over the "global" batch or "per_device"; or "folded", where
        convolutions have biases and nothing is normalised (published mobile weights).
      remat: recompute every block in the backward pass instead of storing its inside.
      projection: width of a linear layer after the pooling; None for the pooled features.
      devices: their count is the number of groups of batch_norm="per_device".
    """
    counts = {"global": 1, "per_device": devices.count, "folded": None}
    lookup("config.model.image.normalization", normalization, pixels.NORMALIZATIONS)
    return Tower(
        MobileNetV2(
            width=width,
            depthwise=depthwise_lib.choose(depthwise, devices.platform),
            batch_groups=lookup("config.model.image.batch_norm", batch_norm, counts),
            normalization=normalization,
            remat=remat,
            dtype=lookup("config.model.image.dtype", dtype, DTYPES),
            projection=projection,
        )
    )
