"""Heads that pool by attention with one query: SigLIP's, CLIP's for ResNets, and an additive one.

`multihead_attention_pool`: Zhai et al., "Scaling Vision Transformers" (2022), section 3.2, after
Lee et al., "Set Transformer" (2019), as `MAPHead` of google-research/big_vision computes it.
`attention_pool`: Radford et al., "Learning Transferable Visual Models From Natural Language
Supervision" (2021), section 2.4, and `AttentionPool2d` in openai/CLIP; its output layer is the
projection, too.
"""

import dataclasses
from functools import partial

import flax.linen as nn
import jax.numpy as jnp

from xmodal.core.config import setting
from xmodal.models.attention import attend, keep_weights, project_heads
from xmodal.models.basics import Mode
from xmodal.models.features import Features
from xmodal.models.heads.pooling import check_fixed_number
from xmodal.models.initializers import LINEAR
from xmodal.models.transformer_layers import ACTIVATIONS, layer_norm
from xmodal.similarity.embedding import Embedding
from xmodal.similarity.token_sets import masked_softmax


@dataclasses.dataclass(frozen=True)
class MultiheadAttentionPoolConfig:
    """Settings of the head "multihead_attention_pool"; the defaults are those of ViT-B.

    Attributes:
      heads: attention heads.
      mlp_dim: hidden width of the feed-forward layer.
      activation: a key of `transformer_layers.ACTIVATIONS`.
      epsilon: epsilon of the layer norm.
    """

    heads: int = setting(12, at_least=1)
    mlp_dim: int = setting(3072, at_least=1)
    activation: str = setting("gelu_tanh", one_of=ACTIVATIONS)
    epsilon: float = setting(1e-6, above=0)


class MultiheadAttentionPool(nn.Module):
    """Attention of a learned probe over the tokens, y, then y + MLP(norm(y)).

    Parameters: `probe` [W], `query`, `key`, `value`, `attention_output`, `mlp_norm`, `mlp_hidden`,
    `mlp_output`.
    """

    config: MultiheadAttentionPoolConfig

    @nn.compact
    def __call__(self, features: Features, mode: Mode) -> Embedding:
        """Tokens [N, T, W] -> vector [N, W]."""
        config, tokens = self.config, features.real_tokens()
        width, dtype = tokens.shape[-1], tokens.dtype
        tiny = nn.initializers.normal(1e-6)
        dense = partial(nn.Dense, kernel_init=LINEAR["xavier"], dtype=dtype)
        # Xavier's bound for a matrix of one row.
        probe = self.param("probe", lambda *given: LINEAR["xavier"](*given)[0], (1, width))
        query, key, value = project_heads(
            partial(dense, width), config.heads, probe.astype(dtype)[None, None], tokens, tokens
        )
        query = jnp.broadcast_to(query, (tokens.shape[0], *query.shape[1:]))
        attended = attend(query, key, value, features.mask, partial(keep_weights, self))
        y = dense(width, name="attention_output")(attended)[:, 0]
        hidden = dense(config.mlp_dim, bias_init=tiny, name="mlp_hidden")(
            layer_norm(config.epsilon, dtype, "mlp_norm")(y)
        )
        hidden = ACTIVATIONS[config.activation](hidden)
        y = y + dense(width, bias_init=tiny, name="mlp_output")(hidden)
        return Embedding(y.astype(jnp.float32))


@dataclasses.dataclass(frozen=True)
class AttentionPoolConfig:
    """Settings of the head "attention_pool"; the defaults are those of RN50.

    Attributes:
      heads: attention heads.
      width: width of the vector.
    """

    heads: int = setting(32, at_least=1)
    width: int = setting(1024, at_least=1)


class AttentionPool(nn.Module):
    """Attention of the mean cell over itself and all cells, to each of which a position is added.

    Parameters: `position_embeddings` [1 + T, W], `query`, `key`, `value` and `output`.
    """

    config: AttentionPoolConfig

    @nn.compact
    def __call__(self, features: Features, mode: Mode) -> Embedding:
        """Tokens [N, T, W], all of them real -> vector [N, width]."""
        check_fixed_number(features, "attention_pool")
        tokens, heads = features.tokens, self.config.heads
        width, dtype = tokens.shape[-1], tokens.dtype
        mean = jnp.mean(tokens, axis=1, keepdims=True, dtype=jnp.float32).astype(dtype)
        x = jnp.concatenate([mean, tokens], axis=1)
        init = nn.initializers.normal(width**-0.5)
        x = x + self.param("position_embeddings", init, x.shape[1:]).astype(dtype)
        dense = partial(nn.Dense, kernel_init=init, dtype=dtype)
        query, key, value = project_heads(partial(dense, width), heads, x[:, :1], x, x)
        attended = attend(query, key, value, None, partial(keep_weights, self))
        vector = dense(self.config.width, name="output")(attended)[:, 0]
        return Embedding(vector.astype(jnp.float32))


@dataclasses.dataclass(frozen=True)
class AttentionConfig:
    """Settings of the head "attention".

    Attributes:
      scaled: divide the scores by the square root of the tokens' width.
    """

    scaled: bool = True


class Attention(nn.Module):
    """A weighted mean of the tokens y_t: softmax over t of tanh(W y_t + b) . u.

    Alikhani et al., "Cross-Modal Coherence for Text-to-Image Retrieval" (2022), and the authors'
    code, klory/Cross-Modal-Coherence-for-Text-to-Image-Retrieval.

    Parameters: `hidden`, the linear layer, and `query` [W], the vector u.
    """

    config: AttentionConfig

    @nn.compact
    def __call__(self, features: Features, mode: Mode) -> Embedding:
        """Tokens [N, T, W] -> vector [N, W]; the weights are the extra `attention` [N, T]."""
        tokens = features.real_tokens().astype(jnp.float32)
        width = tokens.shape[-1]
        hidden = jnp.tanh(nn.Dense(width, kernel_init=LINEAR["torch"], name="hidden")(tokens))
        scores = hidden @ self.param("query", nn.initializers.normal(1.0), (width,))
        if self.config.scaled:
            scores = scores / width**0.5
        weights = masked_softmax(scores, features.mask)
        vector = jnp.einsum("nt,ntw->nw", weights, tokens)
        return Embedding(vector, extras={"attention": weights})
