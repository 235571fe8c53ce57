"""A normal distribution over embeddings, and samples from it.

Chun et al., "Probabilistic Embeddings for Cross-Modal Retrieval" (2021), section 3.2, and the
authors' code, naver-ai/pcme. The attention of the mean is that of Song and Soleymani, "Polysemous
Visual-Semantic Embedding" (2019), with one head.
"""

import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp

from xmodal.base.config import UserError, setting
from xmodal.models.features import Features
from xmodal.models.heads import pie
from xmodal.models.mode import Mode
from xmodal.models.recurrent import Recurrent
from xmodal.similarity.embedding import Embedding


@dataclasses.dataclass(frozen=True)
class GaussianConfig:
    """Settings of the head "gaussian".

    Attributes:
      width: D, width of the embeddings.
      samples: K, samples per item.
      seed: seed of the samples outside training.
      source: see `pie.PieConfig`.
      linear: see `pie.PieConfig`.
      recurrent: use a separate bidirectional GRU over the word vectors for log sigma, whose output
        at the last real token is its summary (PCME's texts).
    """

    width: int = setting(1024, at_least=1)
    samples: int = setting(7, at_least=1)
    seed: int = setting(0, at_least=0, below=2**32)  # JAX reads 32 bits.
    source: str = setting("auto", one_of=pie.SOURCES)
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
        words = pie.read_words(features)
        attended, weights = pie.attend_words(words, 1, config.width)
        summary = self._summarize(features, words)
        if self.is_mean:
            vectors = pie.normalize(summary + jax.nn.sigmoid(attended[:, 0]))
        else:
            vectors = summary + attended[:, 0]
        return vectors, weights[..., 0]

    def _summarize(self, features: Features, words: Features) -> jax.Array:
        config = self.config
        if not config.recurrent or self.is_mean:
            return pie.summarize(features, config.source, config.width, config.linear, "gaussian")
        if config.width % 2:
            raise UserError(
                f"The head 'gaussian' with recurrent=True splits its width of {config.width} "
                "over two directions; set an even width."
            )
        layer = Recurrent("gru", config.width // 2, 1, True, 0.0, jnp.float32, name="recurrent")
        return layer(words.tokens, words.lengths(), False).last
