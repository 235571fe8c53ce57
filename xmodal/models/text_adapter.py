"""The trainable transformer layers of the CxC paper, on top of frozen BERT.

Parekh et al., "Crisscrossed Captions" (2021), section 5, and the authors' code in
tensorflow/lingvo, lingvo/tasks/milan. Both describe three layers after BERT; only the code has
the linear layer with a ReLU before them.
"""

import math
from collections.abc import Mapping
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from xmodal.config import lookup
from xmodal.models.attention import attend, split_heads
from xmodal.models.tower import DTYPES

_EPSILON = 1e-6


class MilanLayerNorm(nn.Module):
    """Layer norm whose scale is stored as an offset from one."""

    dtype: DTypeLike

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Normalises [N, T, W] over the width."""
        gamma = self.param("gamma", nn.initializers.zeros, x.shape[-1:])
        beta = self.param("beta", nn.initializers.zeros, x.shape[-1:])
        plain = nn.LayerNorm(epsilon=_EPSILON, use_scale=False, use_bias=False, dtype=jnp.float32)
        return (plain(x) * (1 + gamma) + beta).astype(self.dtype)


class MilanBlock(nn.Module):
    """The authors' layer, which differs from the textbook's pre-norm layer.

    The values are slices of the normalised input (no value projection), the residual adds that
    normalised input, and every dimension of a head's queries has a learned positive scale.
    """

    heads: int
    mlp_dim: int
    dtype: DTypeLike

    @nn.compact
    def __call__(self, x: jax.Array, mask: jax.Array, first_only: bool) -> jax.Array:
        """[N, T, W] and bool mask [N, T] -> [N, T, W], or only position 0 as [N, 1, W]."""
        norm, dense = partial(MilanLayerNorm, self.dtype), partial(_dense, dtype=self.dtype)
        x = norm(name="attention_norm")(x)
        queried = x[:, :1] if first_only else x
        query = split_heads(dense(x.shape[-1], name="query")(queried), self.heads)
        key = split_heads(dense(x.shape[-1], name="key")(x), self.heads)
        query_scale = self.param("query_scale", nn.initializers.zeros, query.shape[-1:])
        query *= (jax.nn.softplus(query_scale) / math.log(2)).astype(self.dtype)  # 1 at the start
        attended = attend(query, key, split_heads(x, self.heads), mask)
        x = queried + dense(x.shape[-1], name="attention_output")(attended)
        return x + _mlp(norm(name="mlp_norm")(x), self.mlp_dim, self.dtype)


class StandardBlock(nn.Module):
    """A textbook pre-norm transformer layer with a ReLU."""

    heads: int
    mlp_dim: int
    dtype: DTypeLike

    @nn.compact
    def __call__(self, x: jax.Array, mask: jax.Array, first_only: bool) -> jax.Array:
        """[N, T, W] and bool mask [N, T] -> [N, T, W], or only position 0 as [N, 1, W]."""
        norm = partial(nn.LayerNorm, epsilon=_EPSILON, dtype=self.dtype)
        dense = partial(_dense, dtype=self.dtype)
        normed = norm(name="attention_norm")(x)
        queried = slice(0, 1) if first_only else slice(None)
        query = split_heads(dense(x.shape[-1], name="query")(normed[:, queried]), self.heads)
        key = split_heads(dense(x.shape[-1], name="key")(normed), self.heads)
        value = split_heads(dense(x.shape[-1], name="value")(normed), self.heads)
        attended = attend(query, key, value, mask)
        x = x[:, queried] + dense(x.shape[-1], name="attention_output")(attended)
        return x + _mlp(norm(name="mlp_norm")(x), self.mlp_dim, self.dtype)


_dense = partial(nn.Dense, kernel_init=nn.initializers.xavier_uniform())


def _mlp(x: jax.Array, mlp_dim: int, dtype: DTypeLike) -> jax.Array:
    hidden = jax.nn.relu(_dense(mlp_dim, dtype=dtype, name="mlp_hidden")(x))
    return _dense(x.shape[-1], dtype=dtype, name="mlp_output")(hidden)


BLOCKS: Mapping[str, type[nn.Module]] = {"milan": MilanBlock, "standard": StandardBlock}


class TextAdapter(nn.Module):
    """A linear layer with a ReLU, then transformer blocks.

    Attributes:
      block: the class of the blocks.
      first_only: let the last block compute position 0 only, for a pooling that reads no other.
    """

    block: type[nn.Module]
    width: int
    depth: int
    heads: int
    mlp_dim: int
    first_only: bool
    dtype: DTypeLike

    @nn.compact
    def __call__(self, tokens: jax.Array, mask: jax.Array) -> jax.Array:
        """[N, T, any width] and bool mask [N, T] -> [N, T or 1, W]."""
        x = jax.nn.relu(_dense(self.width, dtype=self.dtype, name="input")(tokens))
        for index in range(self.depth):
            block = self.block(self.heads, self.mlp_dim, self.dtype, name=f"layer{index + 1}")
            x = block(x, mask, self.first_only and index == self.depth - 1)
        return x


def make_adapter(
    *,
    block: str = "milan",
    width: int = 768,
    depth: int = 3,
    heads: int = 8,
    mlp_dim: int = 3072,
    first_only: bool,
    dtype: str,
) -> TextAdapter:
    """The adapter; `block` is "milan" (the authors' layer) or "standard" (pre-norm)."""
    block = lookup("config.model.text.adapter.block", block, BLOCKS)
    return TextAdapter(
        block,
        width,
        depth,
        heads,
        mlp_dim,
        first_only,
        lookup("config.model.text.dtype", dtype, DTYPES),
    )
