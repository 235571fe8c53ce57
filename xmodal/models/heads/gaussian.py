"""A normal distribution over embeddings, and samples of it.

Chun et al., "Probabilistic Embeddings for Cross-Modal Retrieval" (2021), section 3.2, and the
authors' code, naver-ai/pcme. The attention of the mean is that of Song and Soleymani, "Polysemous
Visual-Semantic Embedding" (2019), with one head.
"""

import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp

from xmodal.config import UserError, setting
from xmodal.models.embedding import Embedding
from xmodal.models.features import Features
from xmodal.models.heads.attention import attend, masked_softmax
from xmodal.models.heads.pooling import final_state, last_token, mean_tokens
from xmodal.models.initializers import LINEAR
from xmodal.models.mode import Mode
from xmodal.models.normalize import l2_normalize
from xmodal.models.recurrent import Recurrent

SOURCES = ("auto", "mean", "last", "state")


@dataclasses.dataclass(frozen=True)
class GaussianConfig:
    """Settings of the head "gaussian".

    Attributes:
      width: D, of the embeddings.
      samples: K, of each item.
      seed: of the samples outside of training.
      source: summary of all tokens to which attention is added: their "mean", the "last" real
        one, the final "state" of a recurrent encoder; "auto" is the state where there is one,
        else the mean.
      linear: map that summary by a linear layer; without it, it must be `width` wide.
      recurrent: give log sigma a bidirectional GRU of its own over the word vectors, of which it
        takes the output at the last real token, as summary (PCME's texts).
    """

    width: int = setting(1024, at_least=1)
    samples: int = setting(7, at_least=1)
    seed: int = 0
    source: str = setting("auto", one_of=SOURCES)
    linear: bool = True
    recurrent: bool = False


class Gaussian(nn.Module):
    """Mean and log standard deviation of an item's embedding, and K samples.

    Parameters: `mean` and `log_sigma`, each with `attention_hidden` [W, W / 2],
    `attention_scores` [W / 2, 1], `attended` and, where there is a linear layer, `summary`; the
    layer norm `mean/norm` and the GRU `log_sigma/recurrent`.
    """

    config: GaussianConfig

    @nn.compact
    def __call__(self, features: Features, mode: Mode) -> Embedding:
        """Tokens [N, T, W] -> vector [N, K, D] and log_sigma [N, D].

        The attention reads the extra `words` where the encoder gives it, else the tokens. Extras:
        `mean` [N, D], of norm 1, and `attention` [N, T], the weights behind the mean.
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
    """Returns standard normal noise [N, *shape] that depends on the seed and on each item alone.

    Args:
      content: uint32 [N, 2], see `content.hash_items`.
      seed: of all items.
      shape: of one item's noise.
    """
    # Other generators draw other numbers for a batch of keys than for one key.
    key = jax.random.key(seed, impl="threefry2x32")

    def draw(item: jax.Array) -> jax.Array:
        item_key = jax.random.fold_in(jax.random.fold_in(key, item[0]), item[1])
        return jax.random.normal(item_key, shape)

    return jax.vmap(draw)(content)


class Branch(nn.Module):
    """The mean or the log standard deviation: a summary of all tokens plus attended tokens.

    The mean passes the attended part through a sigmoid, and the sum through a layer norm and an
    L2 norm.
    """

    config: GaussianConfig
    is_mean: bool

    @nn.compact
    def __call__(self, features: Features) -> tuple[jax.Array, jax.Array]:
        """Returns float32 [N, D] and the attention weights [N, T]."""
        config = self.config
        words = features.extras.get("words", features.tokens).astype(jnp.float32)
        read = dataclasses.replace(features, tokens=words)
        weights = self._attention(read)
        attended = nn.Dense(config.width, kernel_init=LINEAR["xavier"], name="attended")
        residual = attended(attend(weights, read))
        summary = self._summarize(features, read)
        if not self.is_mean:
            return summary + residual, weights
        norm = nn.LayerNorm(epsilon=1e-5, use_fast_variance=False, name="norm")
        return l2_normalize(norm(summary + jax.nn.sigmoid(residual))), weights

    def _attention(self, read: Features) -> jax.Array:
        def dense(width: int, name: str) -> nn.Dense:
            return nn.Dense(width, use_bias=False, kernel_init=LINEAR["xavier"], name=name)

        hidden = dense(max(1, read.tokens.shape[-1] // 2), "attention_hidden")(read.tokens)
        scores = dense(1, "attention_scores")(jnp.tanh(hidden))[..., 0]
        return masked_softmax(scores, read.mask)

    def _summarize(self, features: Features, read: Features) -> jax.Array:
        config = self.config
        if config.recurrent and not self.is_mean:
            if config.width % 2:
                raise UserError(
                    f"The head 'gaussian' with recurrent=True splits its width of {config.width} "
                    "over two directions; give an even width."
                )
            layer = Recurrent("gru", config.width // 2, 1, True, 0.0, jnp.float32, name="recurrent")
            outputs, _ = layer(read.tokens, read.lengths(), False)
            return last_token(dataclasses.replace(read, tokens=outputs))
        summary = _read_source(features, config.source).astype(jnp.float32)
        if config.linear:
            return nn.Dense(config.width, kernel_init=LINEAR["torch"], name="summary")(summary)
        if summary.shape[-1] != config.width:
            raise UserError(
                f"The head 'gaussian' with linear=False and width={config.width} gets features of "
                f"width {summary.shape[-1]}; make them equal, or set linear=True."
            )
        return summary


def _read_source(features: Features, source: str) -> jax.Array:
    if source == "auto":
        source = "state" if "state" in features.extras else "mean"
    if source == "state":
        return final_state(features, "The head 'gaussian' with source='state'")
    return last_token(features) if source == "last" else mean_tokens(features)
