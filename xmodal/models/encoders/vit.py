"""Vision Transformer of any size, also that of CLIP and that of SigLIP.

Dosovitskiy et al., "An Image is Worth 16x16 Words: Transformers for Image Recognition at Scale"
(2021), equations 1 to 4; without a class token as in Zhai et al., "Scaling Vision Transformers"
(2022). Radford et al., "Learning Transferable Visual Models From Natural Language Supervision"
(2021), and openai/CLIP: a norm before the layers, patches without a bias. Zhai et al., "Sigmoid
Loss for Language Image Pre-Training" (2023), and google-research/big_vision.
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from xmodal.base.config import UserError, setting
from xmodal.models.devices import Devices
from xmodal.models.encoders.image_encoder import ImageEncoder, ImageEncoderConfig
from xmodal.models.encoders.position_resize import POSITION_RESIZES
from xmodal.models.fused_attention import ATTENTIONS, EINSUM, choose
from xmodal.models.initializers import LINEAR
from xmodal.models.layer_init import BERT
from xmodal.models.mode import Mode
from xmodal.models.transformer_layers import (
    ACTIVATIONS,
    REMAT_POLICIES,
    STORE_NOTHING,
    LayerSpec,
    layer_norm,
    run_layers,
)

INITS = ("vit", "clip", "siglip")
"""Codes whose initial values a Vision Transformer may have."""


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
      patch_bias: whether the linear layer of the patches has a bias.
      drops_rest: whether the last rows and columns that fill no patch are left out, as in SigLIP
        So400m/14 at 384 pixels; otherwise they are an error.
      norm_before: whether a layer norm comes before the layers.
      dropout: dropout rate of the embeddings, attention weights and layer outputs.
      drop_path: stochastic depth, the probability of dropping a residual branch of an image in the
        last layer; it rises linearly from 0 in the first, as in timm.
      activation: a key of `transformer_layers.ACTIVATIONS`.
      epsilon: epsilon of the layer norms.
      init: code whose initial values it has: "vit" (all from N(0.02), truncated), "clip"
        (openai/CLIP) or "siglip" (google-research/big_vision).
      position_resize: how positions are resampled when weights of images of another size are
        loaded, a key of `position_resize.POSITION_RESIZES`.
      remat_policy: see `transformer_layers.run_layers`.
      unroll: see `transformer_layers.run_layers`.
      attention: "einsum", or "cudnn" for its fused kernel on NVIDIA GPUs, which steps with dropout
        do not use; see `fused_attention`.
    """

    patch: int = setting(16, at_least=1)
    width: int = setting(768, at_least=1)
    depth: int = setting(12, at_least=1)
    heads: int = setting(12, at_least=1)
    mlp_dim: int = setting(3072, at_least=1)
    class_token: bool = True
    patch_bias: bool = True
    drops_rest: bool = False
    norm_before: bool = False
    dropout: float = setting(0.0, at_least=0, below=1)
    drop_path: float = setting(0.0, at_least=0, below=1)
    activation: str = setting("gelu", one_of=ACTIVATIONS)
    epsilon: float = setting(1e-6, above=0)
    init: str = setting("vit", one_of=INITS)
    position_resize: str = setting("bicubic", one_of=POSITION_RESIZES)
    remat_policy: str = setting(STORE_NOTHING, one_of=REMAT_POLICIES)
    unroll: bool = False
    attention: str = setting(EINSUM, one_of=ATTENTIONS)


class _Init(NamedTuple):
    """Initializers of the patches, of the class token and the positions, and of the layers."""

    patches: Callable
    tokens: Callable
    layers: str


def _initializers(name: str, width: int) -> _Init:
    tokens = nn.initializers.normal(width**-0.5)
    return {
        "vit": _Init(BERT, BERT, "bert"),
        "clip": _Init(LINEAR["torch"], tokens, "torch"),
        "siglip": _Init(LINEAR["lecun"], tokens, "siglip"),
    }[name]


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

        Raises:
          UserError: the pictures do not divide into patches, or not into as many as the positions
            were made for.
        """
        config = self.config
        self._check_size(pixels)
        init = _initializers(config.init, config.width)
        x = nn.Conv(
            config.width, (config.patch, config.patch), strides=config.patch, padding="VALID",
            use_bias=config.patch_bias, kernel_init=init.patches, dtype=self.dtype, name="patches",
        )(pixels)  # fmt: skip
        x = x.reshape(x.shape[0], -1, config.width)
        if config.class_token:
            token = self.param("class_token", init.tokens, (config.width,)).astype(self.dtype)
            x = jnp.concatenate([jnp.broadcast_to(token, (x.shape[0], 1, config.width)), x], axis=1)
        positions = self.param("position_embeddings", init.tokens, x.shape[1:])
        x = x + positions.astype(self.dtype)
        if config.norm_before:
            x = layer_norm(config.epsilon, self.dtype, "before_norm")(x)
        dropout = config.dropout if mode.drops else 0.0
        spec = LayerSpec(
            config.heads, config.mlp_dim, norm_first=True, activation=config.activation,
            epsilon=config.epsilon, causal=False, dtype=self.dtype, init=init.layers,
            attention=config.attention,
        )  # fmt: skip
        x = run_layers(
            spec, nn.Dropout(dropout, deterministic=False)(x), None, depth=config.depth,
            dropout=dropout, name="layers", remat=config.remat, remat_policy=config.remat_policy,
            unroll=config.unroll, drop_path=config.drop_path if mode.drops else 0.0,
        )  # fmt: skip
        return layer_norm(config.epsilon, self.dtype, "norm")(x)

    def _check_size(self, pixels: jax.Array) -> None:
        patch, (height, width) = self.config.patch, pixels.shape[1:3]
        if (height % patch or width % patch) and not self.config.drops_rest:
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
    """Returns a Vision Transformer for uint8 images of one size.

    Raises:
      UserError: see `fused_attention.choose`.
    """
    attention = choose("config.model.image.encoder", config, devices.platform)
    return Vit(dataclasses.replace(config, attention=attention))
