"""Vision Transformer of any size, including CLIP's and SigLIP's, and the patches that ViLT reads.

Dosovitskiy et al., "An Image is Worth 16x16 Words: Transformers for Image Recognition at Scale"
(2021), equations 1 to 4; without a class token as in Zhai et al., "Scaling Vision Transformers"
(2022). Radford et al., "Learning Transferable Visual Models From Natural Language Supervision"
(2021), and openai/CLIP: a norm before the layers, patches without a bias. Zhai et al., "Sigmoid
Loss for Language Image Pre-Training" (2023), and google-research/big_vision.

`PatchTokens`: Kim et al., "ViLT: Vision-and-Language Transformer Without Convolution or Region
Supervision" (2021), and dandelin/ViLT, vilt/modules/vision_transformer.py.
"""

import dataclasses
from collections.abc import Mapping

import flax.linen as nn
import jax
import jax.numpy as jnp

from xmodal.core.config import setting
from xmodal.core.errors import UserError
from xmodal.models.attention import choose_attention
from xmodal.models.basics import DTYPES, Devices, Mode
from xmodal.models.encoders.encoder import Encoder, ImageEncoder, ImageEncoderConfig
from xmodal.models.encoders.pixels import normalize
from xmodal.models.encoders.position_resize import POSITION_RESIZES
from xmodal.models.features import Features
from xmodal.models.initializers import BERT, LINEAR
from xmodal.models.transformer_layers import ACTIVATIONS, StackConfig, layer_norm

INITS = ("vit", "clip", "siglip")
"""Codes whose initial values a Vision Transformer may have."""


@dataclasses.dataclass(frozen=True)
class VitConfig(ImageEncoderConfig, StackConfig):
    """Settings of a Vision Transformer; the defaults are ViT-B/16. See also the base classes.

    Attributes:
      patch: side of a patch in pixels.
      class_token: whether a learned token comes before those of the patches.
      patch_bias: whether the linear layer of the patches has a bias.
      drops_rest: whether the last rows and columns that fill no patch are left out, as in SigLIP
        So400m/14 at 384 pixels; otherwise they are an error.
      norm_before: whether a layer norm comes before the layers.
      drop_path: stochastic depth, the probability of dropping a residual branch of an image in the
        last layer; it rises linearly from 0 in the first, as in timm.
      activation: a key of `transformer_layers.ACTIVATIONS`.
      epsilon: epsilon of the layer norms.
      init: code whose initial values it has: "vit" (all from N(0.02), truncated), "clip"
        (openai/CLIP) or "siglip" (google-research/big_vision).
      position_resize: how positions are resampled when weights of images of another size are
        loaded, a key of `position_resize.POSITION_RESIZES`.
    """

    patch: int = setting(16, at_least=1)
    class_token: bool = True
    patch_bias: bool = True
    drops_rest: bool = False
    norm_before: bool = False
    drop_path: float = setting(0.0, at_least=0, below=1)
    activation: str = setting("gelu", one_of=ACTIVATIONS)
    epsilon: float = setting(1e-6, above=0)
    init: str = setting("vit", one_of=INITS)
    position_resize: str = setting("bicubic", one_of=POSITION_RESIZES)


class Vit(ImageEncoder):
    """Pixels to the normalized output of the last pre-norm layer.

    Parameters: `patches` (kernel [P, P, 3, W] and perhaps bias), `class_token` [W] and
    `before_norm` if there are such, `position_embeddings` [T, W], `layers`, stacked along a first
    axis, and `norm`.
    """

    config: VitConfig

    @nn.compact
    def encode(self, pixels: jax.Array, mode: Mode) -> jax.Array:
        """Normalized pixels [B, H, W, 3] -> tokens [B, 1 + n, width].

        The class token, if there is one, comes first; the n = (H // P)(W // P) patches follow row
        by row.
        """
        config = self.config
        patch, (height, width) = config.patch, pixels.shape[1:3]
        if (height % patch or width % patch) and not config.drops_rest:
            raise UserError(
                f"Pictures of {height} x {width} pixels do not divide into patches of {patch} x "
                f"{patch}; set config.data.image.size to a multiple of "
                f"config.model.image.encoder.patch={patch}."
            )
        normal = nn.initializers.normal(config.width**-0.5)
        of_patches, of_tokens, of_layers = {
            "vit": (BERT, BERT, "bert"),
            "clip": (LINEAR["torch"], normal, "torch"),
            "siglip": (LINEAR["lecun"], normal, "siglip"),
        }[config.init]
        x = nn.Conv(
            config.width, (patch, patch), strides=patch, padding="VALID",
            use_bias=config.patch_bias, kernel_init=of_patches, dtype=self.dtype, name="patches",
        )(pixels)  # fmt: skip
        x = x.reshape(x.shape[0], -1, config.width)
        if config.class_token:
            token = self.param("class_token", of_tokens, (config.width,)).astype(self.dtype)
            x = jnp.concatenate([jnp.broadcast_to(token, (x.shape[0], 1, config.width)), x], axis=1)
        positions = self.param("position_embeddings", of_tokens, x.shape[1:])
        x = x + positions.astype(self.dtype)
        if config.norm_before:
            x = layer_norm(config.epsilon, self.dtype, "before_norm")(x)
        dropout = config.dropout if mode.drops else 0.0
        x = config.run_layers(
            nn.Dropout(dropout, deterministic=False)(x), None, dropout,
            drop_path=config.drop_path if mode.drops else 0.0, norm_first=True, causal=False,
            activation=config.activation, epsilon=config.epsilon, init=of_layers,
        )  # fmt: skip
        return layer_norm(config.epsilon, self.dtype, "norm")(x)


def make_vit(config: VitConfig, devices: Devices) -> Vit:
    """Returns a Vision Transformer for uint8 images of one size."""
    return Vit(choose_attention("config.model.image.encoder", config, devices.platform))


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
        """`image` uint8 [B, 1 + P, 3 patch^2] of `cut_into_patches` -> tokens [B, 1 + P, W]."""
        config, image = self.config, inputs["image"]
        dtype = DTYPES[config.dtype]
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
