"""Vision Transformer of any size.

Dosovitskiy et al., "An Image is Worth 16x16 Words: Transformers for Image Recognition at Scale"
(2021), equations 1 to 4; without a class token as in Zhai et al., "Scaling Vision Transformers"
(2022).
"""

import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp

from xmodal.base.config import UserError, setting
from xmodal.models.devices import Devices
from xmodal.models.dtypes import DTYPES
from xmodal.models.encoders.image_encoder import ImageEncoder, ImageEncoderConfig
from xmodal.models.mode import Mode
from xmodal.models.transformer_layers import ACTIVATIONS, INIT, LayerSpec, layer_norm, run_layers


@dataclasses.dataclass(frozen=True)
class VitConfig(ImageEncoderConfig):
    """Settings of a Vision Transformer; the defaults are ViT-B/16. See `ImageEncoderConfig`.

    Attributes:
      patch: side of a patch in pixels.
      width: width of the layers.
      depth: number of layers.
      heads: attention heads.
      mlp_dim: hidden width of the feed-forward layers.
      class_token: whether a learned token comes before those of the patches.
      dropout: dropout rate of the embeddings, attention weights and layer outputs.
      activation: a key of `transformer_layers.ACTIVATIONS`.
      epsilon: epsilon of the layer norms.
      unroll: see `transformer_layers.run_layers`.
    """

    patch: int = setting(16, at_least=1)
    width: int = setting(768, at_least=1)
    depth: int = setting(12, at_least=1)
    heads: int = setting(12, at_least=1)
    mlp_dim: int = setting(3072, at_least=1)
    class_token: bool = True
    dropout: float = setting(0.0, at_least=0, below=1)
    activation: str = setting("gelu", one_of=ACTIVATIONS)
    epsilon: float = setting(1e-6, above=0)
    unroll: bool = False


class Vit(ImageEncoder):
    """Pixels to the normalized output of the last pre-norm layer.

    Parameters: `patches` (kernel [P, P, 3, W] and bias), `class_token` [W] if there is one,
    `position_embeddings` [T, W], `layers`, stacked along a first axis, and `norm`.
    """

    config: VitConfig

    @nn.compact
    def encode(self, pixels: jax.Array, mode: Mode) -> jax.Array:
        """Normalized pixels [B, H, W, 3] -> tokens [B, 1 + n, width].

        The class token, if there is one, comes first; the n = (H / P)(W / P) patches follow row
        by row.

        Raises:
          UserError: the pictures do not divide into patches, or not into as many as the positions
            were made for.
        """
        config = self.config
        self._check_size(pixels)
        x = nn.Conv(
            config.width, (config.patch, config.patch), strides=config.patch, padding="VALID",
            kernel_init=INIT, dtype=self.dtype, name="patches",
        )(pixels)  # fmt: skip
        x = x.reshape(x.shape[0], -1, config.width)
        if config.class_token:
            token = self.param("class_token", INIT, (config.width,)).astype(self.dtype)
            x = jnp.concatenate([jnp.broadcast_to(token, (len(x), 1, config.width)), x], axis=1)
        positions = self.param("position_embeddings", INIT, x.shape[1:])
        dropout = config.dropout if mode.drops else 0.0
        x = nn.Dropout(dropout, deterministic=False)(x + positions.astype(self.dtype))
        spec = LayerSpec(
            config.heads, config.mlp_dim, norm_first=True, activation=config.activation,
            epsilon=config.epsilon, causal=False, dtype=self.dtype,
        )  # fmt: skip
        x = run_layers(
            spec, x, None, depth=config.depth, dropout=dropout, name="layers",
            remat=config.remat, unroll=config.unroll,
        )  # fmt: skip
        return layer_norm(config.epsilon, self.dtype, "norm")(x)

    def _check_size(self, pixels: jax.Array) -> None:
        patch, (height, width) = self.config.patch, pixels.shape[1:3]
        if height % patch or width % patch:
            raise UserError(
                f"Pictures of {height} x {width} pixels do not divide into patches of {patch} x "
                f"{patch}; set config.data.image.size to a multiple of "
                f"config.model.image.encoder.patch={patch}."
            )
        count = height // patch * (width // patch) + self.config.class_token
        known: jax.Array | None = self.get_variable("params", "position_embeddings")
        if known is not None and len(known) != count:
            raise UserError(
                f"Pictures of {height} x {width} pixels make {count} tokens, but the model has "
                f"positions for {len(known)}; set config.data.image.size to the size that it was "
                "trained with."
            )


def make_vit(config: VitConfig, devices: Devices) -> Vit:
    """Returns a Vision Transformer for uint8 images of one size."""
    del devices
    return Vit(normalization=config.normalization, dtype=DTYPES[config.dtype], config=config)
