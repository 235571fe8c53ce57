"""Polysemous instance embeddings: K embeddings per item, from K attentions over its tokens.

Song and Soleymani, "Polysemous Visual-Semantic Embedding" (CVPR 2019), section 3.2, and the
authors' code, yalesong/pvse.
"""

import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp

from xmodal.base.config import UserError, setting
from xmodal.models.features import Features
from xmodal.models.heads.pooling import final_state, last_token, mean_tokens
from xmodal.models.initializers import LINEAR
from xmodal.models.mode import Mode
from xmodal.models.normalize import l2_normalize
from xmodal.models.transformer_layers import layer_norm
from xmodal.similarity.embedding import Embedding
from xmodal.similarity.token_sets import masked_softmax

SOURCES = ("auto", "mean", "last", "state")


@dataclasses.dataclass(frozen=True)
class PieConfig:
    """Settings of the head "pie".

    Attributes:
      width: D, width of the embeddings.
      embeddings: K, embeddings per item.
      source: summary of all tokens to which each attention is added: their "mean"; the output at
        the "last" real one, where the backward direction of a recurrent encoder has read one token
        (the released checkpoints, `--legacy` of that code); its final "state", of both directions;
        "auto" is the state if there is one, else the mean.
      linear: apply a linear layer to that summary; otherwise, its width must be `width`.
      dropout: dropout rate of the residuals.
    """

    width: int = setting(1024, at_least=1)
    embeddings: int = setting(2, at_least=1)
    source: str = setting("auto", one_of=SOURCES)
    linear: bool = True
    dropout: float = setting(0.0, at_least=0, below=1)


class Pie(nn.Module):
    """Layer norm of a summary plus a residual, of norm 1, for each of K attentions.

    Parameters: `attention_hidden` [W, W / 2], `attention_scores` [W / 2, K], `attended` [W, D],
    `summary` if it is linear, and `norm`.
    """

    config: PieConfig

    @nn.compact
    def __call__(self, features: Features, mode: Mode) -> Embedding:
        """Tokens [N, T, W] -> vector [N, K, D], or [N, D] for K = 1.

        The attention reads the extra `words` if the encoder provides it, else the tokens. Extras:
        `residuals` [N, K, D], each value in (0, 1), and `attention` [N, T, K].
        """
        config = self.config
        words = read_words(features)
        summary = summarize(features, config.source, config.width, config.linear, "pie")
        attended, attention = attend_words(words, config.embeddings, config.width)
        residuals = nn.Dropout(config.dropout, deterministic=not mode.drops)(
            jax.nn.sigmoid(attended)
        )
        vectors = normalize(summary[:, None] + residuals)
        if config.embeddings == 1:
            vectors = vectors[:, 0]
        return Embedding(vectors, extras={"residuals": residuals, "attention": attention})


def read_words(features: Features) -> Features:
    """Returns float32 word vectors if the encoder provides them, else its tokens."""
    words = features.extras.get("words", features.tokens)
    return dataclasses.replace(features, tokens=words.astype(jnp.float32))


def attend_words(words: Features, heads: int, width: int) -> tuple[jax.Array, jax.Array]:
    """Returns attended tokens through a linear layer, and the weights.

    Adds the layers `attention_hidden`, `attention_scores` and `attended` to the calling module.

    Args:
      words: tokens [N, T, W], float32.
      heads: K.
      width: D.

    Returns:
      [N, K, D], and the weights [N, T, K], which are 0 for padding.
    """

    def dense(width: int, name: str) -> nn.Dense:
        return nn.Dense(width, use_bias=False, kernel_init=LINEAR["xavier"], name=name)

    tokens = words.real_tokens()
    hidden = jnp.tanh(dense(max(1, tokens.shape[-1] // 2), "attention_hidden")(tokens))
    scores = jnp.swapaxes(dense(heads, "attention_scores")(hidden), 1, 2)
    weights = masked_softmax(scores, None if words.mask is None else words.mask[:, None])
    attended = nn.Dense(width, kernel_init=LINEAR["xavier"], name="attended")
    return attended(weights @ tokens), jnp.swapaxes(weights, 1, 2)


def summarize(features: Features, source: str, width: int, linear: bool, head: str) -> jax.Array:
    """Returns the summary [N, D] of all tokens, through the layer `summary` if it is linear.

    Args:
      features: features from the encoder.
      source: one of `SOURCES`.
      width: D.
      linear: whether a linear layer follows.
      head: its name, for errors.

    Raises:
      UserError: the encoder has no state, or without a linear layer the summary is not D wide.
    """
    if source == "auto":
        source = "state" if "state" in features.extras else "mean"
    if source == "state":
        summary = final_state(features, f"The head {head!r} with source='state'")
    else:
        summary = last_token(features) if source == "last" else mean_tokens(features)
    summary = summary.astype(jnp.float32)
    if linear:
        return nn.Dense(width, kernel_init=LINEAR["torch"], name="summary")(summary)
    if summary.shape[-1] != width:
        raise UserError(
            f"The head {head!r} with linear=False and width={width} gets features of width "
            f"{summary.shape[-1]}; make them equal, or set linear=True."
        )
    return summary


def normalize(vectors: jax.Array) -> jax.Array:
    """Returns the layer norm of [..., D], called `norm`, divided by its L2 norm."""
    norm = layer_norm(1e-5, jnp.float32, "norm")
    return l2_normalize(norm(vectors))
