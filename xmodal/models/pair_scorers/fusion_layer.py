"""A transformer layer whose text tokens also attend to the tokens of an image.

Li et al., "BLIP: Bootstrapping Language-Image Pre-training for Unified Vision-Language
Understanding and Generation" (2022), the image-grounded text encoder: a post-norm layer of BERT
with a cross-attention block between self-attention and MLP.
"""

from functools import partial
from typing import NamedTuple

import flax.linen as nn
import jax
from jax.typing import DTypeLike

from xmodal.models.attention import attend, split_heads
from xmodal.models.layer_init import LayerInit
from xmodal.models.mode import Mode
from xmodal.models.transformer_layers import layer_norm


class KeysValues(NamedTuple):
    """Keys and values [N, R, H, D] of the tokens of images."""

    keys: jax.Array
    values: jax.Array


class _Residual(nn.Module):
    """Adds dropped-out changes and normalizes, as BERT does."""

    dropout: float
    dtype: DTypeLike

    @nn.compact
    def __call__(self, x: jax.Array, change: jax.Array, mode: Mode) -> jax.Array:
        x = x + nn.Dropout(self.dropout, deterministic=not mode.drops)(change)
        norm = layer_norm(1e-12, self.dtype, "norm")
        return norm(x)


class SelfAttention(nn.Module):
    """The self-attention block of texts."""

    heads: int
    dropout: float
    dtype: DTypeLike
    initial: LayerInit

    @nn.compact
    def __call__(
        self, x: jax.Array, mask: jax.Array, mode: Mode, queries: int | None = None
    ) -> jax.Array:
        """X [N, T, W], bool mask [N, T] -> the first `queries` tokens, or all: [N, queries, W]."""
        width, first = x.shape[-1], x[:, :queries]
        dense = partial(nn.Dense, width, dtype=self.dtype)
        query, key, value = (
            split_heads(
                dense(kernel_init=self.initial.attention_input, name=name)(tokens), self.heads
            )
            for name, tokens in (("query", first), ("key", x), ("value", x))
        )
        drop = nn.Dropout(self.dropout, deterministic=False) if mode.drops else None
        attended = attend(query, key, value, mask, drop)
        change = dense(kernel_init=self.initial.attention_output, name="output")(attended)
        return _Residual(self.dropout, self.dtype, name="residual")(first, change, mode)


class CrossAttention(nn.Module):
    """The block in which texts attend to images; `keys_values` depends on the images alone."""

    width: int
    heads: int
    dropout: float
    dtype: DTypeLike
    initial: LayerInit

    def setup(self) -> None:
        """Makes the linear layers."""
        dense = partial(nn.Dense, self.width, dtype=self.dtype)
        self.query, self.key, self.value = (
            dense(kernel_init=self.initial.attention_input) for _ in range(3)
        )
        self.output = dense(kernel_init=self.initial.attention_output)
        self.residual = _Residual(self.dropout, self.dtype)
        self.drop = nn.Dropout(self.dropout)

    def keys_values(self, tokens: jax.Array) -> KeysValues:
        """Image tokens [N, R, any width] -> their keys and values."""
        return KeysValues(*(split_heads(x(tokens), self.heads) for x in (self.key, self.value)))

    def __call__(self, x: jax.Array, memory: KeysValues, mask: jax.Array, mode: Mode) -> jax.Array:
        """X [I, J, T, W], keys and values of I images, and their mask [I, R] -> [I, J, T, W]."""
        # The texts of an image are one sequence of queries: no keys or values are copied.
        query = split_heads(self.query(x).reshape(len(x), -1, self.width), self.heads)
        drop = partial(self.drop, deterministic=False) if mode.drops else None
        attended = attend(query, *memory, mask, drop).reshape(x.shape)
        return self.residual(x, self.output(attended), mode)


class Mlp(nn.Module):
    """The MLP block, with the exact (erf) GELU."""

    hidden: int
    dropout: float
    dtype: DTypeLike
    initial: LayerInit

    @nn.compact
    def __call__(self, x: jax.Array, mode: Mode) -> jax.Array:
        """[..., W] -> [..., W]."""
        initial, dense = self.initial, partial(nn.Dense, dtype=self.dtype)
        hidden = dense(
            self.hidden, kernel_init=initial.mlp_hidden, bias_init=initial.mlp_hidden_bias,
            name="hidden",
        )(x)  # fmt: skip
        change = dense(
            x.shape[-1], kernel_init=initial.mlp_output, bias_init=initial.mlp_output_bias,
            name="output",
        )(jax.nn.gelu(hidden, approximate=False))  # fmt: skip
        return _Residual(self.dropout, self.dtype, name="residual")(x, change, mode)


class FusionLayer(nn.Module):
    """Parameters: `self_attention`, `cross_attention`, `mlp`."""

    width: int
    heads: int
    mlp_dim: int
    dropout: float
    dtype: DTypeLike
    initial: LayerInit

    def setup(self) -> None:
        """Makes the three blocks."""
        same = self.dropout, self.dtype, self.initial
        self.self_attention = SelfAttention(self.heads, *same)
        self.cross_attention = CrossAttention(self.width, self.heads, *same)
        self.mlp = Mlp(self.mlp_dim, *same)

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
