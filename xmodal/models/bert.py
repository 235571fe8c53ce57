"""BERT of any size, as released in google-research/bert.

Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers for Language
Understanding" (2019).
"""

from functools import partial

import flax.linen as nn
import jax
from jax.typing import DTypeLike

from xmodal.config import UserError
from xmodal.models.attention import attend, split_heads

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
    compiled whatever the depth. The first `lower_depth` of them can be kept apart, as
    `lower_layers`, to stay frozen while the others train. All tokens have type 0.
    """

    vocab_size: int
    width: int
    depth: int
    heads: int
    mlp_dim: int
    max_positions: int
    dropout: float
    dtype: DTypeLike
    lower_depth: int = 0

    @nn.compact
    def __call__(
        self,
        ids: jax.Array | None,
        mask: jax.Array,
        train: bool,
        *,
        features: jax.Array | None = None,
        stop: bool = False,
    ) -> jax.Array:
        """Int ids [N, T] and bool mask [N, T] -> [N, T, W] in the compute dtype.

        The lower part ends behind `lower_layers`, or behind all layers where none are kept apart.

        Args:
          ids: token ids; not read where `features` are given.
          mask: which tokens are real.
          train: whether to drop at random.
          features: [N, T, W], what the lower part gave for these tokens before.
          stop: return what the lower part gives.
        """
        dropout = self.dropout if train else 0.0

        def run(x: jax.Array, depth: int, name: str) -> jax.Array:
            layers = nn.scan(
                BertLayer,
                variable_axes={"params": 0},
                split_rngs={"params": True, "dropout": True},
                in_axes=nn.broadcast,
                length=depth,
            )(self.heads, self.mlp_dim, dropout, self.dtype, name=name)
            return layers(x, mask)[0]

        if features is None:
            x = self._embed(ids, dropout)
            if self.lower_depth:
                x = run(x, self.lower_depth, "lower_layers")
        else:
            x = features.astype(self.dtype)
        # Where no layers are kept apart, all of them belong to the lower part.
        has_more = not stop if self.lower_depth else features is None
        return run(x, self.depth - self.lower_depth, "layers") if has_more else x

    def _embed(self, ids: jax.Array, dropout: float) -> jax.Array:
        if ids.shape[1] > self.max_positions:
            raise UserError(
                f"texts of {ids.shape[1]} tokens, but BERT has max_positions={self.max_positions}"
            )
        words = self.param("word_embeddings", _INIT, (self.vocab_size, self.width))
        positions = self.param("position_embeddings", _INIT, (self.max_positions, self.width))
        types = self.param("token_type_embeddings", _INIT, (2, self.width))
        x = words[ids] + positions[: ids.shape[1]] + types[0]
        x = _layer_norm(self.dtype, "embeddings_norm")(x)
        return nn.Dropout(dropout, deterministic=False)(x)
