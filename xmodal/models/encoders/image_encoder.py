"""The common bases of pixel encoders: any, and convolutional networks."""

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import flax.linen as nn
import jax
from jax.typing import DTypeLike

from xmodal.base.config import setting
from xmodal.models.batch_norm import POLICIES, STATISTICS, VARIANCES, BatchNorm
from xmodal.models.devices import Devices
from xmodal.models.dtypes import DTYPES
from xmodal.models.encoders import pixels
from xmodal.models.encoders.encoder import Encoder
from xmodal.models.features import Features
from xmodal.models.mode import Mode


@dataclasses.dataclass(frozen=True)
class ImageEncoderConfig:
    """Settings of every pixel encoder.

    Attributes:
      normalization: normalization of the pixels, see `pixels.normalize`.
      dtype: compute dtype; parameters and statistics are float32.
      remat: recompute every block in the backward pass instead of storing its values.
    """

    normalization: str = setting("imagenet", one_of=pixels.NORMALIZATIONS)
    dtype: str = setting("float32", one_of=DTYPES)
    remat: bool = False


@dataclasses.dataclass(frozen=True)
class ConvEncoderConfig(ImageEncoderConfig):
    """Settings of every convolutional network; see `ImageEncoderConfig` for the common ones.

    Attributes:
      batch_norm: policy of the batch normalizations, see `batch_norm.BatchNorm`.
      statistics: whether batch normalization uses the "global" batch or is "per_device".
      variance: "exact", or "fast" to save a pass over each map, which EfficientNets on TPUs save in
        either case, at the cost of digits.
    """

    batch_norm: str = setting("batch", one_of=POLICIES)
    statistics: str = setting("global", one_of=STATISTICS)
    variance: str = setting("exact", one_of=VARIANCES)

    def make_norm(self, devices: Devices, **attributes: Any) -> Callable[..., BatchNorm]:
        """Returns a factory of batch normalizations, which takes further attributes.

        Args:
          devices: their count is the number of groups for "per_device".
          **attributes: attributes of `BatchNorm` that no setting sets.
        """
        groups = devices.count if self.statistics == "per_device" else 1
        policy, variance = self.batch_norm, self.variance
        return partial(BatchNorm, groups=groups, policy=policy, variance=variance, **attributes)


class ImageEncoder(Encoder):
    """Base of the pixel encoders, which define `encode`."""

    feature_column = "image_features"

    config: ImageEncoderConfig

    @property
    def dtype(self) -> DTypeLike:
        """The compute dtype."""
        return DTYPES[self.config.dtype]

    def encode(self, pixels: jax.Array, mode: Mode) -> jax.Array:
        """Returns the tokens [B, T, C] of normalized pixels [B, H, W, 3]."""
        raise NotImplementedError

    def __call__(self, inputs: Mapping[str, jax.Array], mode: Mode) -> Features:
        """`image` uint8 [B, H, W, 3] -> tokens [B, T, C], all of them real.

        `image_features` [B, T, C], the tokens that `frozen_features` returned, may replace `image`.
        """
        if self.feature_column in inputs:
            return Features(inputs[self.feature_column].astype(self.dtype))
        x = pixels.normalize(inputs["image"], self.config.normalization).astype(self.dtype)
        return Features(self.encode(x, mode))


class ConvEncoder(ImageEncoder):
    """Base of the convolutional networks, which define `grid`.

    Attributes:
      norm: makes a batch normalization, given its `name`.
    """

    norm: Callable[..., BatchNorm]

    def recomputed(self, block: type[nn.Module]) -> type[nn.Module]:
        """Returns a block whose values the backward pass recomputes if `remat` is set.

        It is called with its inputs and a `Mode`.
        """
        return nn.remat(block, static_argnums=(2,)) if self.config.remat else block

    def grid(self, pixels: jax.Array, mode: Mode) -> jax.Array:
        """Returns the last map [B, H', W', C] of normalized pixels [B, H, W, 3]."""
        raise NotImplementedError

    def encode(self, pixels: jax.Array, mode: Mode) -> jax.Array:
        """Returns one token per cell of the last map, row by row: [B, H' * W', C]."""
        x = self.grid(pixels, mode)
        return x.reshape(x.shape[0], -1, x.shape[-1])
