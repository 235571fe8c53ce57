"""A transformer layer whose text tokens also attend to the tokens of an image.

Li et al., "BLIP: Bootstrapping Language-Image Pre-training for Unified Vision-Language
Understanding and Generation" (2022), the image-grounded text encoder: a post-norm layer of BERT
with a cross-attention block between self-attention and MLP.
"""

import dataclasses
from functools import partial
from typing import Any, NamedTuple

import flax.linen as nn
import jax

from xmodal.base.config import setting
from xmodal.models.attention import attend, split_heads
from xmodal.models.dtypes import DTYPES
from xmodal.models.layer_init import LAYER_INITS, LayerInit
from xmodal.models.mode import Mode
from xmodal.models.transformer_layers import layer_norm


@dataclasses.dataclass(frozen=True)
class FusionSizes:
    """Sizes of the layers.

    Attributes:
      width: width of the layers; a multiple of `heads`.
      depth: number of layers.
      heads: attention heads of a layer.
      mlp_dim: hidden width of the MLPs.
      dropout: dropout rate of attention weights and of the output of every block.
      dtype: compute dtype; parameters are float32.
      layer_init: initial values of the layers, a key of `LAYER_INITS`, see `BertConfig`.
    """

    width: int = setting(768, at_least=1)
    depth: int = setting(12, at_least=1)
    heads: int = setting(12, at_least=1)
    mlp_dim: int = setting(3072, at_least=1)
    dropout: float = setting(0.1, at_least=0, below=1)
    dtype: str = setting("float32", one_of=DTYPES)
    layer_init: str = setting("bert", one_of=LAYER_INITS)

    @property
    def initial(self) -> LayerInit:
        """Initializers of a layer."""
        return LAYER_INITS[self.layer_init](self.width, self.mlp_dim, self.depth)

    def dense(self, width: int, **options: Any) -> nn.Dense:
        """Returns a linear layer."""
        return nn.Dense(width, dtype=DTYPES[self.dtype], **options)


class KeysValues(NamedTuple):
    """Keys and values [N, R, H, D] of the tokens of images."""

    keys: jax.Array
    values: jax.Array


class _Residual(nn.Module):
    """Adds dropped-out changes and normalizes, as BERT does."""

    sizes: FusionSizes

    @nn.compact
    def __call__(self, x: jax.Array, change: jax.Array, mode: Mode) -> jax.Array:
        x = x + nn.Dropout(self.sizes.dropout, deterministic=not mode.drops)(change)
        norm = layer_norm(1e-12, DTYPES[self.sizes.dtype], "norm")
        return norm(x)


class SelfAttention(nn.Module):
    """The self-attention block of texts."""

    sizes: FusionSizes

    @nn.compact
    def __call__(
        self, x: jax.Array, mask: jax.Array, mode: Mode, queries: int | None = None
    ) -> jax.Array:
        """X [N, T, W], bool mask [N, T] -> the first `queries` tokens, or all: [N, queries, W]."""
        sizes, first = self.sizes, x[:, :queries]
        initial, dense = sizes.initial, partial(sizes.dense, x.shape[-1])
        query, key, value = (
            split_heads(dense(kernel_init=initial.attention_input, name=name)(tokens), sizes.heads)
            for name, tokens in (("query", first), ("key", x), ("value", x))
        )
        drop = nn.Dropout(sizes.dropout, deterministic=False) if mode.drops else None
        attended = attend(query, key, value, mask, drop)
        change = dense(kernel_init=initial.attention_output, name="output")(attended)
        return _Residual(sizes, name="residual")(first, change, mode)


class CrossAttention(nn.Module):
    """The block in which texts attend to images; `keys_values` depends on the images alone."""

    sizes: FusionSizes

    def setup(self) -> None:
        """Makes the linear layers."""
        sizes, initial = self.sizes, self.sizes.initial
        self.query, self.key, self.value = (
            sizes.dense(sizes.width, kernel_init=initial.attention_input) for _ in range(3)
        )
        self.output = sizes.dense(sizes.width, kernel_init=initial.attention_output)
        self.residual = _Residual(sizes)
        self.drop = nn.Dropout(sizes.dropout)

    def keys_values(self, tokens: jax.Array) -> KeysValues:
        """Image tokens [N, R, any width] -> their keys and values."""
        heads = self.sizes.heads
        return KeysValues(*(split_heads(x(tokens), heads) for x in (self.key, self.value)))

    def __call__(self, x: jax.Array, memory: KeysValues, mask: jax.Array, mode: Mode) -> jax.Array:
        """X [I, J, T, W], keys and values of I images, and their mask [I, R] -> [I, J, T, W]."""
        # The texts of an image are one sequence of queries: no keys or values are copied.
        query = self.query(x).reshape(len(x), -1, self.sizes.width)
        query = split_heads(query, self.sizes.heads)
        drop = partial(self.drop, deterministic=False) if mode.drops else None
        attended = attend(query, *memory, mask, drop).reshape(x.shape)
        return self.residual(x, self.output(attended), mode)


class Mlp(nn.Module):
    """The MLP block, with the exact (erf) GELU."""

    sizes: FusionSizes

    @nn.compact
    def __call__(self, x: jax.Array, mode: Mode) -> jax.Array:
        """[..., W] -> [..., W]."""
        sizes, initial = self.sizes, self.sizes.initial
        hidden = sizes.dense(
            sizes.mlp_dim, kernel_init=initial.mlp_hidden, bias_init=initial.mlp_hidden_bias,
            name="hidden",
        )(x)  # fmt: skip
        change = sizes.dense(
            x.shape[-1], kernel_init=initial.mlp_output, bias_init=initial.mlp_output_bias,
            name="output",
        )(jax.nn.gelu(hidden, approximate=False))  # fmt: skip
        return _Residual(sizes, name="residual")(x, change, mode)


class FusionLayer(nn.Module):
    """Parameters: `self_attention`, `cross_attention`, `mlp`."""

    sizes: FusionSizes

    def setup(self) -> None:
        """Makes the three blocks."""
        self.self_attention = SelfAttention(self.sizes)
        self.cross_attention = CrossAttention(self.sizes)
        self.mlp = Mlp(self.sizes)

    def keys_values(self, tokens: jax.Array) -> KeysValues:
        """See `CrossAttention`."""
        return self.cross_attention.keys_values(tokens)

    def read_text(
        self, x: jax.Array, mask: jax.Array, mode: Mode, queries: int | None = None
    ) -> jax.Array:
        """The block that depends on the text alone in the first layer, see `SelfAttention`."""
        return self.self_attention(x, mask, mode, queries)

    def read_image(
        self, x: jax.Array, memory: KeysValues, mask: jax.Array, mode: Mode
    ) -> jax.Array:
        """The other two blocks: [I, J, T, W] -> [I, J, T, W]."""
        return self.mlp(self.cross_attention(x, memory, mask, mode), mode)
