"""The trainable transformer layers of the CxC paper, on top of frozen BERT.

Parekh et al., "Crisscrossed Captions" (2021), section 5, and the authors' code in
tensorflow/lingvo, lingvo/tasks/milan. Both describe three layers after BERT; only the code has
the linear layer with a ReLU before them.
"""

import dataclasses
import math
from collections.abc import Callable
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from xmodal.core.config import setting
from xmodal.models.attention import attend, split_heads
from xmodal.models.basics import DTYPES, Mode
from xmodal.models.features import Features
from xmodal.models.heads.pooling import mean_tokens
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
        x = x.astype(jnp.float32)
        var = jnp.var(x, axis=-1, keepdims=True)
        x = (x - jnp.mean(x, axis=-1, keepdims=True)) * jax.lax.rsqrt(var + _EPSILON)
        return (x * (1 + gamma) + beta).astype(self.dtype)


class Block(nn.Module):
    """A pre-norm transformer layer with a ReLU: the textbook's, or the authors'.

    The authors' differs: the values are slices of the normalized input (no value projection), the
    residual adds that normalized input, and every dimension of a head's queries has a learned
    positive scale.
    """

    kind: str
    heads: int
    mlp_dim: int
    dtype: DTypeLike

    @nn.compact
    def __call__(self, x: jax.Array, mask: jax.Array, queries: int | None) -> jax.Array:
        """[N, T, W] and bool mask [N, T] -> the first `queries` tokens, or all: [N, queries, W]."""
        norm: Callable[..., nn.Module] = partial(MilanLayerNorm, self.dtype)
        if self.kind == "standard":
            norm = partial(layer_norm, _EPSILON, self.dtype)
        width, dense = x.shape[-1], partial(_dense, dtype=self.dtype)
        normed = norm(name="attention_norm")(x)
        query = split_heads(dense(width, name="query")(normed[:, :queries]), self.heads)
        key = split_heads(dense(width, name="key")(normed), self.heads)
        value = normed
        if self.kind == "milan":
            scale = self.param("query_scale", nn.initializers.zeros, query.shape[-1:])
            query *= (jax.nn.softplus(scale) / math.log(2)).astype(self.dtype)  # 1 at the start
            x = normed
        else:
            value = dense(width, name="value")(normed)
        attended = attend(query, key, split_heads(value, self.heads), mask)
        x = x[:, :queries] + dense(width, name="attention_output")(attended)
        hidden = dense(self.mlp_dim, name="mlp_hidden")(norm(name="mlp_norm")(x))
        return x + dense(width, name="mlp_output")(jax.nn.relu(hidden))


_dense = partial(nn.Dense, kernel_init=nn.initializers.xavier_uniform())


BLOCKS = ("milan", "standard")
POOLS = ("cls", "mean")


@dataclasses.dataclass(frozen=True)
class TransformerConfig:
    """Settings of the head "transformer".

    Attributes:
      block: "milan" (the authors' layer) or "standard" (pre-norm).
      input_layer: whether a linear layer with a ReLU precedes the blocks, as in the released code.
      width: width of the blocks; without an input layer, they have that of the tokens.
      depth: number of blocks.
      heads: attention heads of a block.
      mlp_dim: hidden width of the feed-forward layers.
      pool: "cls", the first position, or "mean" over the real tokens.
      dtype: compute dtype; None for that of the tokens. Parameters are float32.
    """

    block: str = setting("milan", one_of=BLOCKS)
    input_layer: bool = True
    width: int = setting(768, at_least=1)
    depth: int = setting(3, at_least=1)
    heads: int = setting(8, at_least=1)
    mlp_dim: int = setting(3072, at_least=1)
    pool: str = setting("cls", one_of=POOLS)
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
        x = features.real_tokens().astype(dtype)
        if config.input_layer:
            x = jax.nn.relu(_dense(config.width, dtype=dtype, name="input")(x))
        for number in range(1, config.depth + 1):
            # Nothing reads the other positions of the last layer.
            queries = 1 if config.pool == "cls" and number == config.depth else None
            block = Block(config.block, config.heads, config.mlp_dim, dtype, name=f"layer{number}")
            x = block(x, mask, queries)
        if config.pool == "cls":
            return Embedding(x[:, 0].astype(jnp.float32))
        return Embedding(mean_tokens(Features(x, mask)))
