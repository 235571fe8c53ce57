"""Scores of prepared items for losses: differentiable, without the temperature and the bias.

Each function takes prepared items [L, ...] and [R, ...] and returns float32 [L, R]. Unlike the
functions for ranking, they do not pad blocks, and they hold all K x K pairs of vectors of two items
at once: one large product, which needs [L, K, R, K] in memory.
"""

import jax
import jax.numpy as jnp

from xmodal.similarity import scores
from xmodal.similarity.scores import products
from xmodal.similarity.vectors import square_root

Squared = dict[str, jax.Array]

# CMCM's value, which keeps the gradient of a distance finite where items coincide.
_SMALLEST_EUCLIDEAN_SQUARE = 1e-12

__all__ = ["euclidean", "match_log_odds", "max_products", "order", "products"]


def max_products(left: jax.Array, right: jax.Array) -> jax.Array:
    """Returns the largest product among the vectors of two items, [L, K, D] and [R, K, D].

    Of equal products, the first gets the gradient, as in PVSE's max pooling in torch: if it were
    shared, vectors of an item that coincide once would coincide forever.
    """
    found = _by_item(products(_flat(left), _flat(right)), left, right)
    found = jnp.moveaxis(found, 1, 2).reshape(len(left), len(right), -1)
    first = jnp.argmax(found, axis=-1, keepdims=True) == jnp.arange(found.shape[-1])
    return jnp.sum(jnp.where(first, found, 0), axis=-1)


def match_log_odds(
    left: Squared, right: Squared, *, match_scale: jax.Array, match_shift: jax.Array
) -> jax.Array:
    """Returns log p - log(1 - p), p being PCME's match probability of two items.

    p is the mean of sigmoid(s), 1 - p that of sigmoid(-s), s = 2 (shift - scale d) of each pair
    of samples. Both are summed as logarithms, so that pairs far apart or together keep a gradient.
    """
    squares = scores.square_distances(
        *(_flat(side["vectors"]) for side in (left, right)),
        *(side["squares"].reshape(-1) for side in (left, right)),
    )
    distances = jnp.sqrt(squares + scores.SMALLEST_SQUARE)
    pairs = _by_item(
        2.0 * (match_shift - match_scale * distances), left["vectors"], right["vectors"]
    )
    matches, differs = (jax.nn.log_sigmoid(sign * pairs) for sign in (1.0, -1.0))
    return jax.nn.logsumexp(matches, axis=(1, 3)) - jax.nn.logsumexp(differs, axis=(1, 3))


def euclidean(left: Squared, right: Squared) -> jax.Array:
    """Returns the negative distances of [L, D] and [R, D], with gradient 0 below 1e-6."""
    squares = scores.square_distances(
        left["vectors"], right["vectors"], left["squares"], right["squares"]
    )
    return -jnp.sqrt(jnp.maximum(squares, _SMALLEST_EUCLIDEAN_SQUARE))


def order(left: jax.Array, right: jax.Array) -> jax.Array:
    """Returns -|max(0, y - x)| of x [L, D] and y [R, D], with gradient 0 where it is 0."""

    # One dimension at a time: neither pass holds the differences [L, R, D].
    @jax.checkpoint
    def square(x: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.square(jax.nn.relu(y[None, :] - x[:, None]))

    left, right = left.T, right.T
    squares, _ = jax.lax.scan(
        lambda total, dimension: (total + square(*dimension), None),
        square(left[0], right[0]),
        (left[1:], right[1:]),
    )
    return -square_root(squares)


def _flat(vectors: jax.Array) -> jax.Array:
    return vectors.reshape(-1, vectors.shape[-1])  # [N, K, D] -> [N K, D]


def _by_item(pairs: jax.Array, left: jax.Array, right: jax.Array) -> jax.Array:
    return pairs.reshape(*left.shape[:2], *right.shape[:2])  # -> [L, K, R, K]
