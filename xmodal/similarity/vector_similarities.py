"""Similarities of vectors, for losses and for ranking.

`logits` are differentiable and without the temperature and the bias. They hold all K x K pairs of
vectors of two items at once: one large product, which needs [L, K, R, K] in memory.

`score` takes memory of a few [L, R]. The score of a pair depends on nothing else in its block, so
copies of an item have equal scores to the last bit. The tests verify this on the CPU; a GPU library
chooses its product by the shape of the block and does not guarantee it.
"""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp

from xmodal.core.errors import UserError
from xmodal.similarity.interface import PairCost, Params, Prepared, SimilarityFunction
from xmodal.similarity.tiles import join, pad, split
from xmodal.similarity.vectors import (
    Squared,
    products,
    square_distances,
    square_root,
    unit_length,
    with_squares,
)

# CMCM's value, which keeps the gradient of a distance finite where items coincide.
_SMALLEST_EUCLIDEAN_SQUARE = 1e-12

# XLA's CPU product sums the leftover rows and columns of a block in a different order from the
# rest, so the same two vectors would score differently in blocks of different sizes. Whole tiles
# have this many columns, and fewer rows.
TILE = 64
TILE_ROWS = 16

# Added to a squared distance, so that the distance has a finite gradient where samples coincide.
SMALLEST_SQUARE = 1e-6  # PCME's value.


def read_vectors(name: str, vectors: jax.typing.ArrayLike) -> jax.Array:
    """Returns embeddings [N, D] as float32, or float64 under `in_precision`."""
    if jnp.ndim(vectors) != 2:
        raise UserError(
            f"Similarity {name!r} compares one vector per item, [N, D], not embeddings of shape "
            f"{list(jnp.shape(vectors))}; for several vectors per item, [N, K, D], use "
            "'max_cosine' or 'match_probability'."
        )
    return _floats(vectors)


def _floats(vectors: jax.typing.ArrayLike) -> jax.Array:
    array = jnp.asarray(vectors)
    return array.astype(jnp.promote_types(array.dtype, jnp.float32))


class VectorSimilarity(SimilarityFunction):
    """A similarity of one vector per item, [N, D]."""

    symmetric = True

    def init(self, key: Any, left: Any, right: Any) -> dict[str, Any]:
        """See `SimilarityFunction`; the fields are the learned numbers."""
        return dataclasses.asdict(self)

    def prepare(self, params: Params, embedding: jax.Array) -> Prepared:
        """See `SimilarityFunction`."""
        return read_vectors(type(self).__name__.lower(), embedding)

    def score(self, params: Params, left: Prepared, right: Prepared) -> jax.Array:
        """See `SimilarityFunction`; pads the items with zeros to whole tiles."""
        rows, columns = (jax.tree.leaves(side)[0].shape[0] for side in (left, right))
        filled = self.score_tiles(params, pad(left, TILE_ROWS), pad(right, TILE))
        return filled[:rows, :columns]

    def score_tiles(self, params: Params, left: Prepared, right: Prepared) -> jax.Array:
        """Returns `score` of whole tiles."""
        return self.logits(params, left, right)

    def cost(self, left: Prepared, right: Prepared) -> PairCost:
        """See `SimilarityFunction`; memory of a score and its gradient."""
        size = sum(math.prod(x.shape[1:]) for x in jax.tree.leaves(right))
        return PairCost(bytes=8.0, flops=2.0 * size)


class Dot(VectorSimilarity):
    """The inner product."""

    inner_product = True

    def logits(self, params: Params, left: jax.Array, right: jax.Array) -> jax.Array:
        """See `SimilarityFunction`."""
        return products(left, right)


class Cosine(Dot):
    """The inner product of vectors of unit length."""

    unit = True

    def prepare(self, params: Params, embedding: jax.Array) -> jax.Array:
        """See `SimilarityFunction`."""
        return unit_length(super().prepare(params, embedding))


class Euclidean(VectorSimilarity):
    """The negative distance, with gradient 0 below 1e-6."""

    by_distance = True

    def prepare(self, params: Params, embedding: jax.Array) -> Squared:
        """See `SimilarityFunction`."""
        return with_squares(super().prepare(params, embedding))

    def score_tiles(self, params: Params, left: Squared, right: Squared) -> jax.Array:
        """See `VectorSimilarity`."""
        return -jnp.sqrt(square_distances(left, right))

    def logits(self, params: Params, left: Squared, right: Squared) -> jax.Array:
        """See `SimilarityFunction`."""
        return -jnp.sqrt(jnp.maximum(square_distances(left, right), _SMALLEST_EUCLIDEAN_SQUARE))


class Order(VectorSimilarity):
    """-|max(0, y - x)| of an image x and a text y, with gradient 0 where it is 0."""

    symmetric = False

    def score_tiles(self, params: Params, left: jax.Array, right: jax.Array) -> jax.Array:
        """See `VectorSimilarity`."""
        excess = jax.nn.relu(right[None] - left[:, None])  # Fused into the sum, not in memory.
        return -jnp.sqrt(jnp.sum(jnp.square(excess), axis=-1))

    def logits(self, params: Params, left: jax.Array, right: jax.Array) -> jax.Array:
        """See `SimilarityFunction`."""

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


class _SeveralVectors(VectorSimilarity):
    """A similarity of K vectors per item, [N, K, D]; [N, D] is treated as K = 1."""

    def prepare(self, params: Params, embedding: jax.Array) -> Prepared:
        """See `SimilarityFunction`."""
        vectors = _floats(embedding)
        return vectors[:, None] if vectors.ndim == 2 else vectors

    def score_tiles(self, params: Params, left: Prepared, right: Prepared) -> jax.Array:
        """See `VectorSimilarity`; compares few rows at a time."""
        rows = jax.tree.leaves(left)[0].shape[0]
        tiles = split(left, TILE_ROWS)
        return join(jax.lax.map(lambda tile: self.logits(params, tile, right), tiles), rows)


class MaxCosine(_SeveralVectors):
    """The largest product among the unit vectors of two items.

    Of equal products, the first gets the gradient, as in PVSE's max pooling in torch: if it were
    shared, vectors of an item that coincide once would coincide forever.
    """

    unit = True

    def prepare(self, params: Params, embedding: jax.Array) -> jax.Array:
        """See `SimilarityFunction`."""
        return unit_length(super().prepare(params, embedding))

    def logits(self, params: Params, left: jax.Array, right: jax.Array) -> jax.Array:
        """See `SimilarityFunction`."""
        found = _by_item(products(_flat(left), _flat(right)), left, right)
        found = jnp.moveaxis(found, 1, 2).reshape(len(left), len(right), -1)
        first = jnp.argmax(found, axis=-1, keepdims=True) == jnp.arange(found.shape[-1])
        return jnp.sum(jnp.where(first, found, 0), axis=-1)


@dataclasses.dataclass(frozen=True)
class MatchProbability(_SeveralVectors):
    """log p - log(1 - p), p being PCME's match probability of two items.

    p is the mean of sigmoid(s), 1 - p that of sigmoid(-s), s = 2 (shift - scale d) of each pair
    of samples. Both are summed as logarithms, so that pairs far apart or together keep a gradient.

    PCME ranks by p, which in float32 is 0 for most pairs of a trained model and 1 from s = 17 on;
    its log-odds keep their order. The error of a square is about 1e-7 of |x|^2: negligible for
    samples around unit vectors.

    Attributes:
      match_scale: initial scale, which is learned.
      match_shift: initial shift, likewise.
    """

    match_scale: float = 15.0
    match_shift: float = 15.0

    by_distance = True

    def prepare(self, params: Params, embedding: jax.Array) -> Squared:
        """See `SimilarityFunction`."""
        return with_squares(super().prepare(params, embedding))

    def logits(self, params: Params, left: Squared, right: Squared) -> jax.Array:
        """See `SimilarityFunction`."""
        flat: list[Squared] = [
            {"vectors": _flat(side["vectors"]), "squares": side["squares"].reshape(-1)}
            for side in (left, right)
        ]
        distances = jnp.sqrt(square_distances(*flat) + SMALLEST_SQUARE)
        pairs = _by_item(
            2.0 * (params["match_shift"] - params["match_scale"] * distances),
            left["vectors"],
            right["vectors"],
        )
        matches, differs = (jax.nn.log_sigmoid(sign * pairs) for sign in (1.0, -1.0))
        return jax.nn.logsumexp(matches, axis=(1, 3)) - jax.nn.logsumexp(differs, axis=(1, 3))


def _flat(vectors: jax.Array) -> jax.Array:
    return vectors.reshape(-1, vectors.shape[-1])  # [N, K, D] -> [N K, D]


def _by_item(pairs: jax.Array, left: jax.Array, right: jax.Array) -> jax.Array:
    return pairs.reshape(*left.shape[:2], *right.shape[:2])  # -> [L, K, R, K]
