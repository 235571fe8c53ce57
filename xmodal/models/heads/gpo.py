"""The generalized pooling operator of VSE-infinity, after the layers of its region encoder.

Chen et al., "Learning the Best Pooling Strategy for Visual Semantic Embedding" (2021), and the
authors' code, woodfrog/vse_infty.
"""

import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from xmodal.base.config import setting
from xmodal.models.batch_norm import torch_batch_norm
from xmodal.models.features import Features
from xmodal.models.initializers import LINEAR
from xmodal.models.mode import Mode
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
        config, dtype = self.config, tokens.dtype
        projected = tokens
        if config.width is not None:
            linear = nn.Dense(
                config.width, kernel_init=LINEAR[config.init], dtype=dtype, name="linear"
            )
            projected = linear(tokens)
        if config.mlp is None:
            return projected
        init = LINEAR["torch"]
        hidden = nn.Dense(config.mlp, kernel_init=init, dtype=dtype, name="mlp_hidden")(tokens)
        counted = mask
        if mask is not None and config.norm_padding:
            counted = mask | _padding(mask)
        norm = torch_batch_norm(name="mlp_norm")
        hidden = jax.nn.relu(norm(hidden, mode, counted))
        output = nn.Dense(projected.shape[-1], kernel_init=init, dtype=dtype, name="mlp_output")
        return projected + output(hidden)


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
    if features.mask is None:
        return _pool(tokens, _rank(tokens), weights)
    real = features.mask[..., None]
    ranks = _rank(jnp.where(real, tokens, -jnp.inf))
    return _pool(jnp.where(real, tokens, 0), ranks, weights)


# T comparisons of whole arrays take a few percent of the time of a sort, which is slow along a
# short axis that is not the last one.
def _rank(tokens: jax.Array) -> jax.Array:
    """Returns int32 [N, T, D]: how many of the T values come before; of equal ones, the first."""
    tokens = jax.lax.stop_gradient(tokens)
    places = jnp.arange(tokens.shape[1])[:, None]

    def compare(place: int, ranks: jax.Array) -> jax.Array:
        other = jax.lax.dynamic_slice_in_dim(tokens, place, 1, axis=1)
        precedes = (other > tokens) | ((other == tokens) & (place < places))
        return ranks + precedes.astype(jnp.int32)

    zeros = jnp.zeros_like(tokens, jnp.int32)
    return jax.lax.fori_loop(0, tokens.shape[1], compare, zeros)


@jax.custom_vjp
def _pool(tokens: jax.Array, ranks: jax.Array, weights: jax.Array) -> jax.Array:
    """Returns the sum [N, D] of tokens [N, T, D], each times the weight [N, T] of its rank."""
    return jnp.sum(tokens * _weight_of(ranks, weights), axis=1)


def _pool_forward(
    tokens: jax.Array, ranks: jax.Array, weights: jax.Array
) -> tuple[jax.Array, tuple[jax.Array, jax.Array, jax.Array]]:
    return _pool(tokens, ranks, weights), (tokens, ranks, weights)


def _pool_backward(
    kept: tuple[jax.Array, jax.Array, jax.Array], cotangent: jax.Array
) -> tuple[jax.Array, None, jax.Array]:
    tokens, ranks, weights = kept
    products = tokens * cotangent[:, None]

    def sum_of(rank: jax.Array) -> jax.Array:
        return jnp.sum(jnp.where(ranks == rank, products, 0), axis=(1, 2))

    of_weights = jax.lax.map(sum_of, jnp.arange(weights.shape[1]))
    return cotangent[:, None] * _weight_of(ranks, weights), None, of_weights.T


_pool.defvjp(_pool_forward, _pool_backward)


def _weight_of(ranks: jax.Array, weights: jax.Array) -> jax.Array:
    """Returns the weights [N, T, D] of ranks; selections, since gathers are slow."""

    def choose(rank: int, chosen: jax.Array) -> jax.Array:
        weight = jax.lax.dynamic_slice_in_dim(weights, rank, 1, axis=1)
        return jnp.where(ranks == rank, weight[..., None], chosen)

    zeros = jnp.zeros(ranks.shape, weights.dtype)
    return jax.lax.fori_loop(0, weights.shape[1], choose, zeros)
