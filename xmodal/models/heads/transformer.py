"""The trainable transformer layers of the CxC paper, on top of frozen BERT.

Parekh et al., "Crisscrossed Captions" (2021), section 5, and the authors' code in
tensorflow/lingvo, lingvo/tasks/milan. Both describe three layers after BERT; only the code has
the linear layer with a ReLU before them.
"""

import dataclasses
import math
from collections.abc import Mapping
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from xmodal.base.config import setting
from xmodal.models.attention import attend, split_heads
from xmodal.models.dtypes import DTYPES
from xmodal.models.features import Features
from xmodal.models.heads.pooling import mean_tokens
from xmodal.models.mode import Mode
from xmodal.models.transformer_layers import layer_norm
from xmodal.similarity.embedding import Embedding

_EPSILON = 1e-6


class MilanLayerNorm(nn.Module):
    """Layer norm whose scale is stored as an offset from one."""

    dtype: DTypeLike

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Normalizes [N, T, W] over the width."""
        gamma = self.param("gamma", nn.initializers.zeros, x.shape[-1:])
        beta = self.param("beta", nn.initializers.zeros, x.shape[-1:])
        plain = nn.LayerNorm(
            epsilon=_EPSILON,
            use_fast_variance=False,
            use_scale=False,
            use_bias=False,
            dtype=jnp.float32,
        )
        return (plain(x) * (1 + gamma) + beta).astype(self.dtype)


class MilanBlock(nn.Module):
    """The authors' layer, which differs from the textbook's pre-norm layer.

    The values are slices of the normalized input (no value projection), the residual adds that
    normalized input, and every dimension of a head's queries has a learned positive scale.
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
        norm = partial(layer_norm, _EPSILON, self.dtype)
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


POOLS = ("first", "mean")


@dataclasses.dataclass(frozen=True)
class TransformerConfig:
    """Settings of the head "transformer".

    Attributes:
      block: "milan" (the authors' layer) or "standard" (pre-norm).
      width: width of the blocks.
      depth: number of blocks.
      heads: attention heads of a block.
      mlp_dim: hidden width of the feed-forward layers.
      pool: "first" position or "mean" over the real tokens.
      dtype: compute dtype; None for that of the tokens. Parameters are float32.
    """

    block: str = setting("milan", one_of=BLOCKS)
    width: int = setting(768, at_least=1)
    depth: int = setting(3, at_least=1)
    heads: int = setting(8, at_least=1)
    mlp_dim: int = setting(3072, at_least=1)
    pool: str = setting("first", one_of=POOLS)
    dtype: str | None = setting(None, one_of=DTYPES)


class Transformer(nn.Module):
    """A linear layer with a ReLU, transformer blocks, and pooling.

    Parameters: `input`, `layer1`, `layer2`, ...
    """

    config: TransformerConfig

    @nn.compact
    def __call__(self, features: Features, mode: Mode) -> Embedding:
        """Tokens [N, T, any width] -> vector [N, W]."""
        config, mask = self.config, features.full_mask()
        dtype = DTYPES[config.dtype] if config.dtype else features.tokens.dtype
        x = jax.nn.relu(_dense(config.width, dtype=dtype, name="input")(features.real_tokens()))
        for number in range(1, config.depth + 1):
            block = BLOCKS[config.block](config.heads, config.mlp_dim, dtype, name=f"layer{number}")
            # Only this position of the last layer is needed.
            first_only = config.pool == "first" and number == config.depth
            x = block(x, mask, first_only)
        if config.pool == "first":
            return Embedding(x[:, 0].astype(jnp.float32))
        return Embedding(mean_tokens(Features(x, mask)))
