"""Polysemous and probabilistic embeddings: attentions over the tokens added to a summary of all.

Song and Soleymani, "Polysemous Visual-Semantic Embedding" (CVPR 2019), section 3.2, and the
authors' code, yalesong/pvse: K embeddings per item. Chun et al., "Probabilistic Embeddings for
Cross-Modal Retrieval" (2021), section 3.2, and the authors' code, naver-ai/pcme: a normal
distribution and samples from it.
"""

import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp

from xmodal.core.config import setting
from xmodal.models.basics import Mode, l2_normalize
from xmodal.models.features import Features
from xmodal.models.heads.pooling import final_state, last_token, mean_tokens
from xmodal.models.initializers import LINEAR
from xmodal.models.recurrent import Recurrent
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
    return summary


def normalize(vectors: jax.Array) -> jax.Array:
    """Returns the layer norm of [..., D], called `norm`, divided by its L2 norm."""
    norm = layer_norm(1e-5, jnp.float32, "norm")
    return l2_normalize(norm(vectors))


@dataclasses.dataclass(frozen=True)
class GaussianConfig:
    """Settings of the head "gaussian".

    Attributes:
      width: D, width of the embeddings.
      samples: K, samples per item.
      seed: seed of the samples outside training.
      source: see `PieConfig`.
      linear: see `PieConfig`.
      recurrent: use a separate bidirectional GRU over the word vectors for log sigma, whose output
        at the last real token is its summary (PCME's texts).
    """

    width: int = setting(1024, at_least=1)
    samples: int = setting(7, at_least=1)
    seed: int = setting(0, at_least=0, below=2**32)  # JAX reads 32 bits.
    source: str = setting("auto", one_of=SOURCES)
    linear: bool = True
    recurrent: bool = False


class Gaussian(nn.Module):
    """Mean and log standard deviation of an item's embedding, and K samples.

    Parameters: `mean` and `log_sigma`, each with `attention_hidden` [W, W / 2],
    `attention_scores` [W / 2, 1], `attended` and, if there is a linear layer, `summary`; the
    layer norm `mean/norm` and the GRU `log_sigma/recurrent`.
    """

    config: GaussianConfig

    @nn.compact
    def __call__(self, features: Features, mode: Mode) -> Embedding:
        """Tokens [N, T, W] -> vector [N, K, D] and log_sigma [N, D].

        The attention reads the extra `words` if the encoder provides it, else the tokens. Extras:
        `mean` [N, D], with norm 1, and `attention` [N, T], the weights of the mean.
        """
        config = self.config
        mean, weights = Branch(config, is_mean=True, name="mean")(features)
        log_sigma, _ = Branch(config, is_mean=False, name="log_sigma")(features)
        shape = (config.samples, config.width)
        if mode.drops:
            noise = jax.random.normal(self.make_rng("sample"), (len(mean), *shape))
        else:
            noise = draw_noise(features.extras["content"], config.seed, shape)
        samples = mean[:, None] + jnp.exp(log_sigma)[:, None] * noise
        return Embedding(samples, log_sigma, {"mean": mean, "attention": weights})


def draw_noise(content: jax.Array, seed: int, shape: tuple[int, ...]) -> jax.Array:
    """Returns standard normal noise [N, *shape] that depends only on the seed and each item.

    Args:
      content: uint32 [N, 2], see `content.hash_items`.
      seed: seed for all items.
      shape: shape of one item's noise.
    """
    # Other generators draw different numbers for a batch of keys than for a single key.
    key = jax.random.key(seed, impl="threefry2x32")

    def draw(item: jax.Array) -> jax.Array:
        item_key = jax.random.fold_in(jax.random.fold_in(key, item[0]), item[1])
        return jax.random.normal(item_key, shape)

    return jax.vmap(draw)(content)


class Branch(nn.Module):
    """The mean or the log standard deviation: a summary of all tokens plus attended tokens.

    For the mean, the attended part passes through a sigmoid, and the sum through a layer norm and
    an L2 norm.
    """

    config: GaussianConfig
    is_mean: bool

    @nn.compact
    def __call__(self, features: Features) -> tuple[jax.Array, jax.Array]:
        """Returns float32 [N, D] and the attention weights [N, T]."""
        config = self.config
        words = read_words(features)
        attended, weights = attend_words(words, 1, config.width)
        summary = self._summarize(features, words)
        if self.is_mean:
            vectors = normalize(summary + jax.nn.sigmoid(attended[:, 0]))
        else:
            vectors = summary + attended[:, 0]
        return vectors, weights[..., 0]

    def _summarize(self, features: Features, words: Features) -> jax.Array:
        config = self.config
        if not config.recurrent or self.is_mean:
            return summarize(features, config.source, config.width, config.linear, "gaussian")
        layer = Recurrent("gru", config.width // 2, 1, True, 0.0, jnp.float32, name="recurrent")
        return layer(words.tokens, words.lengths(), False).last
