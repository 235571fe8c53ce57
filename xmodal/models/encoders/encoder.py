"""The bases of all encoders: any, pixel encoders, and convolutional networks."""

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

import flax.linen as nn
import jax
from jax.typing import DTypeLike

from xmodal.core.config import setting
from xmodal.core.errors import UserError
from xmodal.models.basics import DTYPES, Devices, Mode
from xmodal.models.batch_norm import POLICIES, STATISTICS, BatchNorm
from xmodal.models.encoders import pixels
from xmodal.models.features import Features
from xmodal.models.initializers import CONV


class Encoder(nn.Module):
    """Turns the columns of a batch into `Features`.

    An encoder with frozen features can be run once, before training, with the weights that are
    frozen, and then reads what it returned in place of the raw column.

    Attributes:
      feature_column: column of the frozen features; "" if the encoder has none.
    """

    feature_column: ClassVar[str] = ""

    def __call__(self, inputs: Mapping[str, jax.Array], mode: Mode) -> Features:
        """Returns the tokens [N, T, W] of the items in some columns of a batch."""
        raise NotImplementedError

    def frozen_features(self, inputs: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        """Returns the frozen features [N, T, W], by default all tokens, by `feature_column`."""
        return {self.feature_column: self(inputs, Mode.EVALUATE).tokens}

    @property
    def may_pool_features(self) -> bool:
        """Whether frozen features are the whole output, so that a head may reduce them first."""
        return True

    def makes_frozen_features(self, name: str) -> bool:
        """Returns whether frozen features depend on the parameters called `name`."""
        return True


def read_ids(inputs: Mapping[str, jax.Array]) -> tuple[jax.Array, jax.Array]:
    """Returns `text_ids` int [N, T] and `text_mask` as bool [N, T]."""
    return inputs["text_ids"], inputs["text_mask"] > 0


def check_length(ids: jax.Array, positions: int) -> None:
    """Raises an error if texts [N, T] have more tokens than an encoder has positions."""
    if ids.shape[1] > positions:
        raise UserError(
            f"Texts have {ids.shape[1]} tokens, but their encoder has max_positions={positions}: "
            "lower config.data.text.max_length, or raise config.model.text.encoder.max_positions."
        )


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
    """

    batch_norm: str = setting("batch", one_of=POLICIES)
    statistics: str = setting("global", one_of=STATISTICS)

    def make_norm(self, devices: Devices, **attributes: Any) -> Callable[..., BatchNorm]:
        """Returns a factory of batch normalizations, which takes further attributes.

        Args:
          devices: their count is the number of groups for "per_device".
          **attributes: attributes of `BatchNorm` that no setting sets.
        """
        groups = devices.count if self.statistics == "per_device" else 1
        return partial(BatchNorm, groups=groups, policy=self.batch_norm, **attributes)


@dataclasses.dataclass(frozen=True)
class ConvNorm:
    """Convolutions with a batch normalization each, inside a module's compact method.

    Attributes:
      norm: makes a batch normalization, given its `name`; None for convolutions into which it was
        folded, which have biases instead.
      dtype: compute dtype.
      kernel_init: initializer of the kernels.
      bias: whether convolutions have a bias although a batch normalization follows.
    """

    norm: Callable[..., BatchNorm] | None
    dtype: DTypeLike
    kernel_init: Callable = CONV
    bias: bool = False

    def __call__(
        self,
        x: jax.Array,
        mode: Mode,
        name: str,
        channels: int,
        size: int | tuple[int, int] = 1,
        stride: int = 1,
        padding: str | int = "SAME",
        groups: int = 1,
        **norm_options: Any,
    ) -> jax.Array:
        """[B, H, W, I] -> [B, H', W', channels], by the layers `name` and `{name}_norm`."""
        x = nn.Conv(
            channels, (size, size) if isinstance(size, int) else size, strides=stride,
            padding=padding, feature_group_count=groups, use_bias=self.bias or self.norm is None,
            kernel_init=self.kernel_init, dtype=self.dtype, name=name,
        )(x)  # fmt: skip
        return x if self.norm is None else self.norm(name=f"{name}_norm", **norm_options)(x, mode)


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
      devices: devices that the batch is split over.
      norm_options: attributes of the batch normalizations that no setting sets.
    """

    config: ConvEncoderConfig
    devices: Devices
    norm_options: ClassVar[Mapping[str, Any]] = {}

    @property
    def norm(self) -> Callable[..., BatchNorm]:
        """Makes a batch normalization, given its `name`."""
        return self.config.make_norm(self.devices, **self.norm_options)

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
