"""The patches of pictures of any shape, embedded one by one.

Kim et al., "ViLT: Vision-and-Language Transformer Without Convolution or Region Supervision"
(2021), and dandelin/ViLT, vilt/modules/vision_transformer.py.
"""

import dataclasses
from collections.abc import Mapping

import flax.linen as nn
import jax
import jax.numpy as jnp

from xmodal.base.config import UserError, setting
from xmodal.models.dtypes import DTYPES
from xmodal.models.encoders.encoder import Encoder
from xmodal.models.encoders.image_encoder import ImageEncoderConfig
from xmodal.models.encoders.pixels import normalize
from xmodal.models.features import Features
from xmodal.models.layer_init import BERT
from xmodal.models.mode import Mode


@dataclasses.dataclass(frozen=True)
class PatchTokensConfig(ImageEncoderConfig):
    """Settings of the encoder "patch_tokens". See `ImageEncoderConfig`.

    Attributes:
      patch: side of a patch in pixels.
      width: width of the tokens.
      grid: side of the square grid of learned positions.
      dropout: dropout rate of the tokens.
    """

    patch: int = setting(32, at_least=1)
    width: int = setting(768, at_least=1)
    grid: int = setting(12, at_least=1)
    dropout: float = setting(0.0, at_least=0, below=1)


class PatchTokens(Encoder):
    """A linear layer of the patches and positions, after a class token.

    Parameters: `patches`, `class_token` [W] and `position_embeddings` [1 + G^2, W], the class
    token's first.
    """

    config: PatchTokensConfig

    @nn.compact
    def __call__(self, inputs: Mapping[str, jax.Array], mode: Mode) -> Features:
        """`image` uint8 [B, 1 + P, 3 patch^2] of `cut_into_patches` -> tokens [B, 1 + P, W].

        Raises:
          UserError: the pictures were not cut into such patches.
        """
        config, image = self.config, inputs["image"]
        dtype = DTYPES[config.dtype]
        if image.ndim != 3 or image.shape[-1] != 3 * config.patch**2:
            raise UserError(
                f"The encoder 'patch_tokens' reads patches of {config.patch} pixels, not "
                f"{image.dtype} {list(image.shape)}; set config.data.image.patch={config.patch}."
            )
        sizes = image[:, 0, :2].astype(jnp.int32)
        patches = image[:, 1:]
        pixels = patches.reshape(len(image), -1, config.patch, 3)  # One patch below the other.
        pixels = normalize(pixels, config.normalization).reshape(patches.shape)
        dense = nn.Dense(config.width, kernel_init=BERT, dtype=dtype, name="patches")
        x = dense(pixels.astype(dtype))
        token = self.param("class_token", BERT, (config.width,)).astype(dtype)
        x = jnp.concatenate([jnp.broadcast_to(token, (len(x), 1, config.width)), x], axis=1)
        table = self.param("position_embeddings", BERT, (1 + config.grid**2, config.width))
        x = x + place_positions(table, sizes, x.shape[1]).astype(dtype)
        mask = jnp.arange(x.shape[1]) <= sizes[:, :1] * sizes[:, 1:]
        drop = nn.Dropout(config.dropout, deterministic=not mode.drops)
        return Features(drop(x), mask)


def place_positions(table: jax.Array, sizes: jax.Array, count: int) -> jax.Array:
    """Returns the positions of the tokens of grids of any shape.

    The table is resampled linearly, and its corners stay at the corners of the grid.

    Args:
      table: float32 [1 + G^2, W], the class token's position first.
      sizes: rows and columns of each grid, int32 [B, 2].
      count: T, tokens of an item, the class token included.

    Returns:
      float32 [B, T, W]; arbitrary after the last patch.
    """
    side = round((len(table) - 1) ** 0.5)
    grid = table[1:].reshape(side, side, -1)
    at = jnp.arange(count - 1)
    rows, columns = sizes[:, :1], jnp.maximum(sizes[:, 1:], 1)

    def weigh(place: jax.Array, length: jax.Array) -> jax.Array:
        """The weights [B, T - 1, G] of the rows or columns of the table."""
        scaled = place * (side - 1) / jnp.maximum(length - 1, 1)
        return jnp.maximum(0.0, 1 - jnp.abs(scaled[..., None] - jnp.arange(side)))

    weights = weigh(at // columns, rows), weigh(at % columns, columns)
    found = jnp.einsum("btr,btc,rcw->btw", *weights, grid, precision="highest")
    first = jnp.broadcast_to(table[0], (len(found), 1, table.shape[-1]))
    return jnp.concatenate([first, found], axis=1)
