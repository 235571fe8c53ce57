"""Scores of prepared items, for losses and for ranking.

Functions for losses take prepared items [L, ...] and [R, ...] and return float32 [L, R],
differentiable, without the temperature and the bias. They hold all K x K pairs of vectors of two
items at once: one large product, which needs [L, K, R, K] in memory.

Functions for ranking, `score_...`, take prepared queries of B items and a prepared gallery of M
items and return float32 [B, M] in memory of a few [B, M]. The score of a pair depends on nothing
else in its block, so copies of an item have equal scores to the last bit. The tests verify this on
the CPU; a GPU library chooses its product by the shape of the block and does not guarantee it.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

from xmodal.similarity.tiles import join, pad, split
from xmodal.similarity.vectors import Prepared, square_root

Squared = dict[str, jax.Array]

# CMCM's value, which keeps the gradient of a distance finite where items coincide.
_SMALLEST_EUCLIDEAN_SQUARE = 1e-12

# XLA's CPU product sums the leftover rows and columns of a block in a different order from the
# rest, so the same two vectors would score differently in blocks of different sizes. Whole tiles
# have this many columns, and fewer rows.
TILE = 64
TILE_ROWS = 16

# Added to a squared distance, so that the distance has a finite gradient where samples coincide.
SMALLEST_SQUARE = 1e-6  # PCME's value.


def _in_whole_tiles(score: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
    """Returns `score` for blocks padded with zero items to whole tiles."""

    @functools.wraps(score)
    def tiled(queries: Prepared, gallery: Prepared, **parameters: float) -> jax.Array:
        rows, columns = (jax.tree.leaves(side)[0].shape[0] for side in (queries, gallery))
        filled = score(pad(queries, TILE_ROWS), pad(gallery, TILE), **parameters)
        return filled[:rows, :columns]

    return tiled


def products(left: jax.Array, right: jax.Array) -> jax.Array:
    """Returns the inner products [B, M] of [B, D] and [M, D].

    Uses float32 throughout, even if the default product is bfloat16.
    """
    return jax.lax.dot_general(
        left, right, (((1,), (1,)), ((), ())), precision=jax.lax.Precision.HIGHEST
    )


def square_distances(
    left: jax.Array, right: jax.Array, left_squares: jax.Array, right_squares: jax.Array
) -> jax.Array:
    """Returns |x - y|^2 [B, M] of [B, D] and [M, D], given the squared lengths [B] and [M].

    Computed as |x|^2 + |y|^2 - 2 x y, so its error is about 1e-7 of the squared lengths.
    """
    lengths = left_squares[:, None] + right_squares[None]
    return jnp.maximum(lengths - 2.0 * products(left, right), 0.0)


@_in_whole_tiles
def score_products(queries: jax.Array, gallery: jax.Array) -> jax.Array:
    """Returns the inner products of [B, D] and [M, D]."""
    return products(queries, gallery)


@_in_whole_tiles
def score_euclidean(queries: dict[str, jax.Array], gallery: dict[str, jax.Array]) -> jax.Array:
    """Returns the negative Euclidean distances of [B, D] and [M, D]."""
    squares = square_distances(
        queries["vectors"], gallery["vectors"], queries["squares"], gallery["squares"]
    )
    return -jnp.sqrt(squares)


@_in_whole_tiles
def score_order(queries: jax.Array, gallery: jax.Array) -> jax.Array:
    """Returns order similarity, -|max(0, y - x)|, of queries x (images) and gallery y (texts)."""
    excess = jax.nn.relu(gallery[None] - queries[:, None])  # Fused into the sum, not in memory.
    return -jnp.sqrt(jnp.sum(jnp.square(excess), axis=-1))


def _by_rows(compare: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
    """Returns a function for ranking that compares few rows at a time."""

    @_in_whole_tiles
    def score(queries: Prepared, gallery: Prepared, **parameters: float) -> jax.Array:
        tiles = split(queries, TILE_ROWS)
        rows = jax.tree.leaves(queries)[0].shape[0]
        found = jax.lax.map(lambda tile: compare(tile, gallery, **parameters), tiles)
        return join(found, rows)

    return score


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
    squares = square_distances(
        *(_flat(side["vectors"]) for side in (left, right)),
        *(side["squares"].reshape(-1) for side in (left, right)),
    )
    distances = jnp.sqrt(squares + SMALLEST_SQUARE)
    pairs = _by_item(
        2.0 * (match_shift - match_scale * distances), left["vectors"], right["vectors"]
    )
    matches, differs = (jax.nn.log_sigmoid(sign * pairs) for sign in (1.0, -1.0))
    return jax.nn.logsumexp(matches, axis=(1, 3)) - jax.nn.logsumexp(differs, axis=(1, 3))


def euclidean(left: Squared, right: Squared) -> jax.Array:
    """Returns the negative distances of [L, D] and [R, D], with gradient 0 below 1e-6."""
    squares = square_distances(left["vectors"], right["vectors"], left["squares"], right["squares"])
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


score_max_products = _by_rows(max_products)
score_match_log_odds = _by_rows(match_log_odds)
"""PCME ranks by p, which in float32 is 0 for most pairs of a trained model and 1 from s = 17 on;
its log-odds keep their order. The error of a square is about 1e-7 of |x|^2: negligible for samples
around unit vectors."""
