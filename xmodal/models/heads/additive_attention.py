"""Additive attention over tokens, as in the coherence-aware retrieval model.

Alikhani et al., "Cross-Modal Coherence for Text-to-Image Retrieval" (2022), and the authors'
code, klory/Cross-Modal-Coherence-for-Text-to-Image-Retrieval.
"""

import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp

from xmodal.models.features import Features
from xmodal.models.initializers import LINEAR
from xmodal.models.mode import Mode
from xmodal.similarity.embedding import Embedding
from xmodal.similarity.token_sets import masked_softmax


def attend(weights: jax.Array, features: Features) -> jax.Array:
    """Returns the weighted sum of tokens, weights [N, T] and tokens [N, T, W] -> [N, W]."""
    return jnp.einsum("nt,ntw->nw", weights, features.real_tokens().astype(jnp.float32))


@dataclasses.dataclass(frozen=True)
class AttentionConfig:
    """Settings of the head "attention".

    Attributes:
      scaled: divide the scores by the square root of the tokens' width.
    """

    scaled: bool = True


class Attention(nn.Module):
    """A weighted mean of the tokens y_t: softmax over t of tanh(W y_t + b) . u.

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
        return Embedding(attend(weights, features), extras={"attention": weights})
