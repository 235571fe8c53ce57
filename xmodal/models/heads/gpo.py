"""The generalized pooling operator of VSE-infinity, after the layers of its region encoder.

Chen et al., "Learning the Best Pooling Strategy for Visual Semantic Embedding" (2021), and the
authors' code, woodfrog/vse_infty.
"""

import dataclasses
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from xmodal.core.config import setting
from xmodal.models.basics import Mode
from xmodal.models.batch_norm import torch_batch_norm
from xmodal.models.features import Features
from xmodal.models.initializers import LINEAR
from xmodal.models.recurrent import Recurrent, mean_directions
from xmodal.similarity.embedding import Embedding
from xmodal.similarity.token_sets import masked_softmax


@dataclasses.dataclass(frozen=True)
class GpoConfig:
    """Settings of the head "gpo".

    Attributes:
      width: width of a linear layer that every token passes first; None for no such layer.
      init: initializer of its kernel, see `initializers.LINEAR`.
      mlp: hidden width of two layers parallel to the linear one, whose results are added; None
        for none. A batch normalization and a ReLU follow the first.
      norm_padding: whether the statistics of the batch normalization include the zero rows that
        pad an item to the longest one of the batch, as in the released code, or only the real
        tokens.
      drop: probability that a token is left out in training.
      drop_varies: multiply that probability by a draw u from U(0, 1) for each item, and keep all
        tokens if u <= drop (the released code's rule for grids).
      code_width: width of the sinusoidal code of a position.
      hidden: width of one direction of the GRU over these codes.
      temperature: divides the scores of the positions; 0.1 in the released code, not in the paper.
    """

    width: int | None = setting(None, at_least=1)
    init: str = setting("xavier", one_of=LINEAR)
    mlp: int | None = setting(None, at_least=1)
    norm_padding: bool = True
    drop: float = setting(0.0, at_least=0, below=1)
    drop_varies: bool = False
    code_width: int = setting(32, at_least=2)
    hidden: int = setting(32, at_least=1)
    temperature: float = setting(0.1, above=0)


class Gpo(nn.Module):
    """A weighted sum of the sorted values of each dimension; the weights depend only on n.

    Parameters: `linear`; `mlp_hidden`, `mlp_norm` and `mlp_output`; `recurrent` and `score`, which
    give the weights.
    """

    config: GpoConfig

    @nn.compact
    def __call__(self, features: Features, mode: Mode) -> Embedding:
        """Tokens [N, T, W] -> vector [N, D]; the weights are the extra `weights` [N, T].

        The first weight of an item is that of its largest values.
        """
        config, mask = self.config, features.mask
        if config.drop and mode.drops:
            mask = self._drop(features.full_mask())
        tokens = Features(features.tokens, mask).real_tokens()
        tokens = self._project(tokens, mask, mode).astype(jnp.float32)
        kept = Features(tokens, mask)
        weights = PositionWeights(config, name="position_weights")(kept)
        return Embedding(pool_sorted(kept, weights), extras={"weights": weights})

    def _drop(self, mask: jax.Array) -> jax.Array:
        """Returns the mask without the dropped tokens; an item keeps at least one."""
        config = self.config
        token_key, item_key = jax.random.split(self.make_rng("dropout"))
        draws = jax.random.uniform(token_key, mask.shape)
        rate = jnp.asarray(config.drop)
        if config.drop_varies:
            shares = jax.random.uniform(item_key, (len(mask), 1))
            rate = jnp.where(shares > config.drop, config.drop * shares, 0.0)
        highest = draws == jnp.max(jnp.where(mask, draws, -1.0), axis=1, keepdims=True)
        return mask & ((draws >= rate) | highest)

    def _project(self, tokens: jax.Array, mask: jax.Array | None, mode: Mode) -> jax.Array:
        config, dense = self.config, partial(nn.Dense, dtype=tokens.dtype)
        projected = tokens
        if config.width is not None:
            init = LINEAR[config.init]
            projected = dense(config.width, kernel_init=init, name="linear")(tokens)
        if config.mlp is None:
            return projected
        init = LINEAR["torch"]
        hidden = dense(config.mlp, kernel_init=init, name="mlp_hidden")(tokens)
        counted = mask
        if mask is not None and config.norm_padding:
            counted = mask | _padding(mask)
        hidden = jax.nn.relu(torch_batch_norm(name="mlp_norm")(hidden, mode, counted))
        width = projected.shape[-1]
        return projected + dense(width, kernel_init=init, name="mlp_output")(hidden)


def _padding(mask: jax.Array) -> jax.Array:
    """Returns bool [N, T], which marks the padding of each item up to the longest item's length."""
    lengths = jnp.sum(mask, axis=1, keepdims=True)
    return ~mask & (jnp.cumsum(~mask, axis=1) <= jnp.max(lengths) - lengths)


class PositionWeights(nn.Module):
    """The weights of n sorted values: a softmax over the scores of the positions 1 to n.

    A bidirectional GRU reads the codes of the positions; the mean of its directions is scored.

    Parameters: `recurrent` and `score`.
    """

    config: GpoConfig

    @nn.compact
    def __call__(self, features: Features) -> jax.Array:
        """Weights for the number of real tokens: float32 [N, T], 0 beyond it."""
        config, (items, positions) = self.config, features.tokens.shape[:2]
        # Without a mask, all items have equal length, hence one row of weights.
        rows = 1 if features.mask is None else items
        lengths = features.lengths()[:rows]
        codes = jnp.asarray(encode_positions(positions, config.code_width))
        codes = jnp.broadcast_to(codes, (rows, *codes.shape))
        layer = Recurrent("gru", config.hidden, 1, True, 0.0, jnp.float32, name="recurrent")
        outputs = layer(codes, lengths, False).tokens
        score = nn.Dense(1, use_bias=False, kernel_init=LINEAR["torch"], name="score")
        scores = score(mean_directions(outputs))[..., 0] / config.temperature
        weights = masked_softmax(scores, jnp.arange(positions) < lengths[:, None])
        return jnp.broadcast_to(weights, (items, positions))


def encode_positions(positions: int, width: int) -> np.ndarray:
    """Returns the sinusoidal codes of the positions 0, 1, ..., float32 [positions, width]."""
    rates = np.exp(np.arange(0, width, 2) * (-np.log(10_000.0) / width))
    angles = np.arange(positions)[:, None] * rates
    both = np.stack([np.sin(angles), np.cos(angles)], axis=-1)
    return both.reshape(positions, -1)[:, :width].astype(np.float32)


def pool_sorted(features: Features, weights: jax.Array) -> jax.Array:
    """Returns the sum [N, D] of each dimension's values in descending order times weights [N, T].

    Padding comes last, with weight 0.
    """
    tokens = features.tokens
    if features.mask is not None:
        tokens = jnp.where(features.mask[..., None], tokens, -jnp.inf)
    values = jnp.sort(tokens, axis=1, descending=True)
    values = jnp.where(jnp.isneginf(values), 0, values)
    return jnp.einsum("ntd,nt->nd", values, weights)
