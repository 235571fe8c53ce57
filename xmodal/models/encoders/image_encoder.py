"""The common bases of pixel encoders: any, and convolutional networks."""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

import flax.linen as nn
import jax
from jax.typing import DTypeLike

from xmodal.base.config import setting
from xmodal.models.batch_norm import POLICIES, STATISTICS, VARIANCES
from xmodal.models.dtypes import DTYPES
from xmodal.models.encoders import pixels
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


class ImageEncoder(nn.Module):
    """Base of the pixel encoders, which define `encode`.

    Attributes:
      normalization: normalization of the pixels, see `pixels.normalize`.
      dtype: compute dtype.
    """

    feature_column: ClassVar[str] = "image_features"
    may_pool_features: ClassVar[bool] = True

    normalization: str
    dtype: DTypeLike

    def encode(self, pixels: jax.Array, mode: Mode) -> jax.Array:
        """Returns the tokens [B, T, C] of normalized pixels [B, H, W, 3]."""
        raise NotImplementedError

    def __call__(self, inputs: Mapping[str, jax.Array], mode: Mode) -> Features:
        """`image` uint8 [B, H, W, 3] -> tokens [B, T, C], all of them real.

        `image_features` [B, T, C], the tokens that `frozen_features` returned, may replace `image`.
        """
        if self.feature_column in inputs:
            return Features(inputs[self.feature_column].astype(self.dtype))
        x = pixels.normalize(inputs["image"], self.normalization).astype(self.dtype)
        return Features(self.encode(x, mode))

    def frozen_features(self, inputs: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        """Returns the tokens [B, T, C] as the column `image_features`."""
        return {self.feature_column: self(inputs, Mode.EVALUATE).tokens}

    def makes_frozen_features(self, name: str) -> bool:
        """Returns whether frozen features depend on the parameters `name`: always true."""
        return True


class ConvEncoder(ImageEncoder):
    """Base of the convolutional networks, which define `grid`."""

    def grid(self, pixels: jax.Array, mode: Mode) -> jax.Array:
        """Returns the last map [B, H', W', C] of normalized pixels [B, H, W, 3]."""
        raise NotImplementedError

    def encode(self, pixels: jax.Array, mode: Mode) -> jax.Array:
        """Returns one token per cell of the last map, row by row: [B, H' * W', C]."""
        x = self.grid(pixels, mode)
        return x.reshape(x.shape[0], -1, x.shape[-1])
