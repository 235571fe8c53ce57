"""BERT of any size, as released in google-research/bert.

Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers for Language
Understanding" (2019).
"""

from functools import partial

import flax.linen as nn
import jax
from jax.typing import DTypeLike

from xmodal.models.attention import attend, split_heads
from xmodal.options import UserError

_INIT = nn.initializers.truncated_normal(0.02)


def _layer_norm(dtype: DTypeLike, name: str) -> nn.LayerNorm:
    # The tiny epsilon leaves no room for the cancellation of the one-pass variance.
    return nn.LayerNorm(epsilon=1e-12, use_fast_variance=False, dtype=dtype, name=name)


class BertLayer(nn.Module):
    """A post-norm transformer layer with the exact (erf) GELU."""

    heads: int
    mlp_dim: int
    dropout: float
    dtype: DTypeLike

    @nn.compact
    def __call__(self, x: jax.Array, mask: jax.Array) -> tuple[jax.Array, None]:
        """X [N, T, W] and bool mask [N, T] -> ([N, T, W], nothing to stack)."""
        width = x.shape[-1]
        dense = partial(nn.Dense, kernel_init=_INIT, dtype=self.dtype)
        drop = nn.Dropout(self.dropout, deterministic=False)
        query, key, value = (
            split_heads(dense(width, name=name)(x), self.heads)
            for name in ("query", "key", "value")
        )
        attended = dense(width, name="attention_output")(attend(query, key, value, mask, drop))
        x = _layer_norm(self.dtype, "attention_norm")(x + drop(attended))
        hidden = jax.nn.gelu(dense(self.mlp_dim, name="mlp_hidden")(x), approximate=False)
        x = x + drop(dense(width, name="mlp_output")(hidden))
        return _layer_norm(self.dtype, "mlp_norm")(x), None


class Bert(nn.Module):
    """Token ids to the sequence output of the last layer.

    The parameters of the layers are stacked along a first axis, as `layers`: one layer is
    compiled whatever the depth. All tokens have type 0.
    """

    vocab_size: int
    width: int
    depth: int
    heads: int
    mlp_dim: int
    max_positions: int
    dropout: float
    dtype: DTypeLike

    @nn.compact
    def __call__(self, ids: jax.Array, mask: jax.Array, train: bool) -> jax.Array:
        """Int ids [N, T] and bool mask [N, T] -> [N, T, W] in the compute dtype."""
        if ids.shape[1] > self.max_positions:
            raise UserError(
                f"texts of {ids.shape[1]} tokens, but BERT has max_positions={self.max_positions}"
            )
        words = self.param("word_embeddings", _INIT, (self.vocab_size, self.width))
        positions = self.param("position_embeddings", _INIT, (self.max_positions, self.width))
        types = self.param("token_type_embeddings", _INIT, (2, self.width))
        dropout = self.dropout if train else 0.0
        x = words[ids] + positions[: ids.shape[1]] + types[0]
        x = _layer_norm(self.dtype, "embeddings_norm")(x)
        x = nn.Dropout(dropout, deterministic=False)(x)
        layers = nn.scan(
            BertLayer,
            variable_axes={"params": 0},
            split_rngs={"params": True, "dropout": True},
            in_axes=nn.broadcast,
            length=self.depth,
        )(self.heads, self.mlp_dim, dropout, self.dtype, name="layers")
        x, _ = layers(x, mask)
        return x
