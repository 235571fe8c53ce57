"""Scores of prepared items for ranking: blocks of any size give the same bits.

Each function takes prepared queries of B items and a prepared gallery of M items and returns
float32 [B, M] in memory of a few [B, M]. The score of a pair depends on nothing else in its block,
so copies of an item have equal scores to the last bit, and, except for `score_order`, score(y, x)
is score(x, y) transposed, to the last bit. The tests verify this on the CPU; a GPU library chooses
its product by the shape of the block and does not guarantee it.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from xmodal.similarity.tiles import pad
from xmodal.similarity.vectors import Prepared

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


def _pairs(rows: int, columns: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Returns pairs (i, j) of vectors: those to add as (i, j) + (j, i), and the rest.

    With rows and columns exchanged, both lists are the same pairs, reversed, in the same order, so
    a sum over them has the same bits.
    """
    common = min(rows, columns)
    mutual = [(i, j) for i in range(common) for j in range(i + 1, common)]
    covered = {*mutual, *((j, i) for i, j in mutual)}
    rest = [(i, j) for i in range(rows) for j in range(columns) if (i, j) not in covered]
    return mutual, sorted(rest, key=sorted)


def _accumulate(
    step: Callable[[Any, jax.Array, jax.Array], Any],
    start: Any,
    pairs: list[tuple[int, int]],
) -> Any:
    # A loop in the compiled program too, so that one pair's [B, M] is alive at a time.
    if not pairs:
        return start
    first, second = (jnp.asarray(side, jnp.int32) for side in zip(*pairs, strict=True))
    total, _ = jax.lax.scan(lambda total, pair: (step(total, *pair), None), start, (first, second))
    return total


@_in_whole_tiles
def score_products(queries: jax.Array, gallery: jax.Array) -> jax.Array:
    """Returns the inner products of [B, D] and [M, D]."""
    return products(queries, gallery)


@_in_whole_tiles
def score_max_products(queries: jax.Array, gallery: jax.Array) -> jax.Array:
    """Returns the largest product among the vectors of two items, as PVSE ranks."""
    left, right = jnp.moveaxis(queries, 1, 0), jnp.moveaxis(gallery, 1, 0)  # [K, B, D], [L, M, D]
    pairs = [(i, j) for i in range(len(left)) for j in range(len(right))]
    start = jnp.full((left.shape[1], right.shape[1]), -jnp.inf, left.dtype)
    return _accumulate(
        lambda best, i, j: jnp.maximum(best, products(left[i], right[j])), start, pairs
    )


@_in_whole_tiles
def score_match_log_odds(
    queries: dict[str, jax.Array],
    gallery: dict[str, jax.Array],
    *,
    match_scale: float,
    match_shift: float,
) -> jax.Array:
    """Returns log p - log(1 - p), p being PCME's probability that two items match.

    p is the mean over all pairs of their samples of sigmoid(s), s = 2 (shift - scale d), where d =
    sqrt(|x - y|^2 + 1e-6). PCME ranks by p, which in float32 is 0 for most pairs of a trained
    model (s below -88) and 1 from s = 17 on; its log-odds keep their order. The square is computed
    as |x|^2 + |y|^2 - 2 x y, whose error is about 1e-7 of |x|^2: negligible for samples around unit
    vectors.
    """
    left, right = (jnp.moveaxis(side["vectors"], 1, 0) for side in (queries, gallery))
    left_squares, right_squares = (side["squares"].T for side in (queries, gallery))  # [K, B]

    def odds(i: jax.Array, j: jax.Array) -> jax.Array:
        squares = square_distances(left[i], right[j], left_squares[i], right_squares[j])
        return 2.0 * (match_shift - match_scale * jnp.sqrt(squares + SMALLEST_SQUARE))

    mutual, rest = _pairs(len(left), len(right))
    shape = (left.shape[1], right.shape[1])
    start = tuple(jnp.full(shape, value) for value in (-jnp.inf, 0.0, -jnp.inf, 0.0))
    total = _accumulate(lambda t, i, j: _add_sigmoids(t, odds(i, j), odds(j, i)), start, mutual)
    total = _accumulate(lambda t, i, j: _add_sigmoids(t, odds(i, j)), total, rest)
    top, matches, bottom, differs = total
    return (top + jnp.log(matches)) - (bottom + jnp.log(differs))


def _add_sigmoids(total: tuple[jax.Array, ...], *odds: jax.Array) -> tuple[jax.Array, ...]:
    """Adds sigmoid(s) and sigmoid(-s) of log-odds s [B, M] to sums m, x, n, y [B, M].

    The sums are exp(m) x and exp(n) y, where m and n are the largest logarithms so far; summing
    logarithms with `logaddexp` takes twenty times as long.

    Terms are quotients: a compiler would round a product only once together with the addition, and
    the sum of two would depend on their order.
    """
    inverse_shares = [1.0 + jnp.exp(-jnp.abs(each)) for each in odds]
    sums = []
    for sign, (top, so_far) in zip((1.0, -1.0), (total[:2], total[2:]), strict=True):
        logs = [jnp.minimum(sign * each, 0.0) for each in odds]
        largest = functools.reduce(jnp.maximum, logs, top)
        pairs = zip(logs, inverse_shares, strict=True)
        terms = [jnp.exp(log - largest) / inverse for log, inverse in pairs]
        sums += [largest, so_far * jnp.exp(top - largest) + functools.reduce(jnp.add, terms)]
    return tuple(sums)


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
