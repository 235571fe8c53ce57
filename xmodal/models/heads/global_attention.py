"""Unit tokens, their weighted mean by attention, and its fusion with concepts that all items share.

Diao et al., "Similarity Reasoning and Filtration for Image-Text Matching" (AAAI 2021), and the
authors' code, Paranioar/SGRAF: attention with the plain mean as the query. Wang et al.,
"Consensus-Aware Visual-Semantic Embedding for Image-Text Matching" (ECCV 2020), and the authors'
code, BruceW91/CVSE: the consensus.
"""

import dataclasses
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp

from xmodal.core.config import setting
from xmodal.models.basics import Mode, l2_normalize
from xmodal.models.batch_norm import torch_batch_norm
from xmodal.models.features import Features
from xmodal.models.heads.pooling import check_fixed_number, mean_tokens
from xmodal.models.initializers import LINEAR, uniform
from xmodal.similarity.embedding import Embedding


@dataclasses.dataclass(frozen=True)
class GlobalAttentionConfig:
    """Settings of the head "global_attention".

    Attributes:
      width: D, width of a linear layer before; None for no such layer, as the authors' texts have.
      batch_norm: normalize the two inputs of the attention over the batch, as the authors' images
        do. The tokens' statistics are one for each position, over images and channels, so all items
        need the same number of tokens.
      dropout: dropout rate of the attention's inputs.
      init: initializer of the attention's linear layers, a key of `LINEAR`.
      unit_query: whether the mean of the tokens is divided by its L2 norm, as CVSE's texts have it.
    """

    width: int | None = setting(None, at_least=1)
    batch_norm: bool = False
    dropout: float = setting(0.4, at_least=0, below=1)
    init: str = setting("xavier", one_of=LINEAR)
    unit_query: bool = False


class GlobalAttention(nn.Module):
    """A linear layer, unit tokens, and attention with their mean as the query.

    Parameters: `linear` of the tokens; `local` and `global`, linear layers of the attention, with
    `local_norm` and `global_norm`; `weight`.
    """

    config: GlobalAttentionConfig

    @nn.compact
    def __call__(self, features: Features, mode: Mode) -> Embedding:
        """Tokens [N, T, W] -> unit vector [N, D].

        Extras: `tokens` [N, T, D], float32 of unit length and zero in the padding, and their
        `mask`, bool [N, T].
        """
        config, mask = self.config, features.full_mask()
        if config.batch_norm:
            check_fixed_number(features, "global_attention")
        tokens = normalize_tokens(features, config.width)
        mean = mean_tokens(Features(tokens, features.mask))
        if config.unit_query:
            mean = l2_normalize(mean)
        dense = partial(nn.Dense, kernel_init=LINEAR[config.init])
        local = dense(tokens.shape[-1], name="local")(tokens)
        whole = dense(tokens.shape[-1], name="global")(mean)
        if config.batch_norm:
            # The positions are the channels.
            local = torch_batch_norm(name="local_norm")(local.swapaxes(1, 2), mode).swapaxes(1, 2)
            whole = torch_batch_norm(name="global_norm")(whole, mode)
        local, whole = (
            nn.Dropout(config.dropout, deterministic=not mode.drops)(jnp.tanh(each))
            for each in (local, whole)
        )
        # A bias would change nothing.
        logits = dense(1, use_bias=False, name="weight")(local * whole[:, None])[..., 0]
        logits = jnp.where(mask, logits, jnp.finfo(jnp.float32).min)
        weights = jax.nn.softmax(logits)
        vector = l2_normalize(jnp.einsum("nt,ntd->nd", weights, tokens))
        return Embedding(vector, extras={"tokens": tokens, "mask": mask})


@dataclasses.dataclass(frozen=True)
class UnitTokensConfig:
    """Settings of the head "unit_tokens".

    Attributes:
      width: D, width of a linear layer before; None for no such layer, as the authors' texts have.
    """

    width: int | None = setting(None, at_least=1)


class UnitTokens(nn.Module):
    """A linear layer, and tokens divided by their length, for similarities that compare tokens.

    Lee et al., "Stacked Cross Attention for Image-Text Matching" (ECCV 2018).

    Parameters: `linear` of the tokens.
    """

    config: UnitTokensConfig

    @nn.compact
    def __call__(self, features: Features, mode: Mode) -> Embedding:
        """Tokens [N, T, W] -> the unit vector [N, D] of their mean, which only finds candidates.

        Extras: `tokens` [N, T, D], float32 of unit length and zero in the padding, and their
        `mask`, bool [N, T].
        """
        tokens = normalize_tokens(features, self.config.width)
        vector = l2_normalize(mean_tokens(Features(tokens, features.mask)))
        return Embedding(vector, extras={"tokens": tokens, "mask": features.full_mask()})


def normalize_tokens(features: Features, width: int | None) -> jax.Array:
    """Returns tokens [N, T, D] of unit length, float32 and zero in the padding.

    Args:
      features: tokens [N, T, W].
      width: D of the layer `linear`, which the calling module then has; None for none.
    """
    tokens = features.real_tokens().astype(jnp.float32)
    if width is not None:
        tokens = nn.Dense(width, kernel_init=LINEAR["xavier"], name="linear")(tokens)
    return Features(l2_normalize(tokens), features.mask).real_tokens()


CONSTANTS = "constants"
"""Collection of the arrays that are never trained; `config.init_from.concepts` fills them."""


@dataclasses.dataclass(frozen=True)
class ConsensusConfig(GlobalAttentionConfig):
    """Settings of the head "consensus": those of its attention, and its own.

    Attributes:
      init: see `GlobalAttentionConfig`; here, torch's default, as in the authors' code.
      concepts: K, number of concepts.
      concept_width: E, width of their word vectors.
      graph_width: width of the hidden layer of their graph.
      sharpness: multiplier of logits and labels before their softmax.
      vocab_size: V of a text tower that knows which concepts its words name; 0 for no labels, as
        images. In a config, 0 of a text tower is the size of the vocabulary.
      label_share: share of the labels in a text's weights, the rest is predicted.
      fusion: share of an item's own vector in its fused vector while it is trained.
      eval_fusion: the same in evaluation.
      concept_share: share of the concepts' inner product in the score of two items.
    """

    init: str = setting("torch", one_of=LINEAR)
    concepts: int = setting(300, at_least=1)
    concept_width: int = setting(300, at_least=1)
    graph_width: int = setting(512, at_least=1)
    sharpness: float = setting(10.0, above=0)
    vocab_size: int = setting(0, at_least=0)
    label_share: float = setting(0.4, at_least=0, below=1)
    fusion: float = setting(0.85, at_least=0, at_most=1)
    eval_fusion: float = setting(0.9, at_least=0, at_most=1)
    concept_share: float = setting(0.05, at_least=0, at_most=1)


class Consensus(nn.Module):
    """Attention over the tokens, then a mean of concept vectors that the result chooses.

    Parameters: `instance`, see `GlobalAttention`; `graph`, see `ConceptGraph`, which both
    modalities of a model share (`ModelConfig.shared`); `concept` and `item`, linear layers with
    `concept_norm` and `item_norm`; `weight` [D, 1].

    Constants of a modality with labels: `concept_of_word` int32 [V], K for a word without a
      concept.
    """

    config: ConsensusConfig

    @nn.compact
    def __call__(self, features: Features, mode: Mode) -> Embedding:
        """Tokens [N, T, W] -> vector [N, 2 D], whose inner products are the scores.

        Extras: `instance` v, `consensus` c and `fused` f, float32 [N, D] of unit length;
        `log_concepts` [N, K], the logarithms of the weights of the concepts, which sum to 1.
        """
        config = self.config
        own = GlobalAttention(config, name="instance")(features, mode).vector
        concepts = ConceptGraph(config, own.shape[-1], name="graph")()
        log_weights = self._predict(own, concepts, mode)
        if config.vocab_size and config.label_share:
            labels = jax.nn.log_softmax(config.sharpness * self._label(features))
            share = config.label_share
            log_weights = jnp.logaddexp(jnp.log(share) + labels, jnp.log1p(-share) + log_weights)
        consensus = l2_normalize(jnp.exp(log_weights) @ concepts)
        share = config.fusion if mode is Mode.TRAIN else config.eval_fusion
        fused = l2_normalize(share * own + (1 - share) * consensus)
        parts = [(1 - config.concept_share) ** 0.5 * fused, config.concept_share**0.5 * consensus]
        extras = {"instance": own, "consensus": consensus, "fused": fused}
        return Embedding(
            jnp.concatenate(parts, axis=1), extras=extras | {"log_concepts": log_weights}
        )

    def _predict(self, own: jax.Array, concepts: jax.Array, mode: Mode) -> jax.Array:
        """Items [N, D] and concepts [K, D] -> logarithms of weights [N, K]."""

        def transform(x: jax.Array, name: str) -> jax.Array:
            x = nn.Dense(x.shape[-1], kernel_init=LINEAR["torch"], name=name)(x)
            norm = torch_batch_norm(name=f"{name}_norm")
            return jnp.tanh(norm(x, mode))

        weight = self.param("weight", LINEAR["torch"], (own.shape[-1], 1))
        # A bias would change nothing. The product over D needs no array of N x K x D.
        logits = (transform(own, "item") * weight[:, 0]) @ transform(concepts, "concept").T
        return jax.nn.log_softmax(self.config.sharpness * logits)

    def _label(self, features: Features) -> jax.Array:
        """1 for the concepts that the words of a text name, else 0, float32 [N, K]."""
        count, rows = self.config.concepts, self.config.vocab_size
        table = self.variable(CONSTANTS, "concept_of_word", jnp.full, (rows,), count, jnp.int32)
        # Stored weights may be float32.
        named = table.value.astype(jnp.int32)[features.extras["label_ids"]]
        return jax.vmap(lambda found: jnp.zeros(count + 1).at[found].max(1.0)[:count])(named)


class ConceptGraph(nn.Module):
    """Two graph convolutions over the word vectors of all concepts.

    Parameters: `hidden` [E, H] and `output` [H, D]. Constants: `vectors` [K, E], and `adjacency`
    [K, K], see `preprocessing.concept_graph.Concepts.adjacency`.
    """

    config: ConsensusConfig
    width: int

    @nn.compact
    def __call__(self) -> jax.Array:
        """Returns unit vectors of the concepts, float32 [K, D]."""
        config = self.config
        shape = (config.concepts, config.concept_width)
        vectors = self.variable(CONSTANTS, "vectors", jnp.zeros, shape).value
        adjacency = self.variable(CONSTANTS, "adjacency", jnp.eye, config.concepts).value

        def convolve(x: jax.Array, name: str, width: int) -> jax.Array:
            return adjacency @ (x @ self.param(name, uniform(width**-0.5), (x.shape[1], width)))

        hidden = nn.leaky_relu(convolve(vectors, "hidden", config.graph_width), 0.2)
        return l2_normalize(convolve(hidden, "output", self.width))
