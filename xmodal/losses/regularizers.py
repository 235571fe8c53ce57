"""Losses without negatives that shape the embeddings of a batch: PVSE's, PCME's and CVSE's."""

from typing import Annotated

import jax
import jax.numpy as jnp

from xmodal.core.config import Bounds
from xmodal.losses.context import Context, Positive, require
from xmodal.similarity import Embedding
from xmodal.similarity.vectors import (
    centered,
    square_distances,
    square_root,
    unit_length,
    with_squares,
)

DISTANCES = {"norm": square_root, "squared": lambda squares: squares}


def diversity(
    left: Embedding, right: Embedding, context: Context
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Returns PVSE's penalty for residuals that point in the same direction, summed over views.

    The mean over items of |G| / K^2 (Frobenius norm), where G [K, K] has the cosines between the
    residuals of an item, and zeros on its diagonal; its gradient is 0 where G is.

    Args:
      left: embedding with the extra `residuals` [B, K, D].
      right: the same.
      context: not read.
    """
    del context
    return _diversity(left) + _diversity(right), {}


def _diversity(embedding: Embedding) -> jax.Array:
    residuals = unit_length(require("diversity", embedding.extras.get("residuals"), "pie"))
    count = residuals.shape[1]
    cosines = jnp.einsum("bkd,bld->bkl", residuals, residuals, precision="highest")
    squares = jnp.sum(jnp.square(cosines) * (1 - jnp.eye(count)), axis=(1, 2))
    return jnp.mean(square_root(squares)) / count**2


def mmd(
    left: Embedding,
    right: Embedding,
    context: Context,
    *,
    distance: Annotated[str, Bounds(one_of=DISTANCES)] = "norm",
    gamma: Positive = 0.5,
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Returns the maximum mean discrepancy between the embeddings of both views.

    The mean of k(x, x') - 2 k(x, y) + k(y, y') over all pairs of the B K vectors of each view,
    including an item with itself.

    Args:
      left: embedding of the left view, vectors x.
      right: embedding of the right view, with equally many vectors y.
      context: not read.
      distance: k is exp(-gamma d). `norm`: d = |x - y|, as in PVSE's code; `squared`: its square,
        the Gaussian kernel that PVSE's paper names. The gradient is 0 where x = y.
      gamma: 0.5 in PVSE.
    """
    del context
    left, right = centered(_flat(left), _flat(right))

    def kernel(x: jax.Array, y: jax.Array, is_same: bool = False) -> jax.Array:
        squares = square_distances(with_squares(x), with_squares(y))
        if is_same:
            squares = squares * (1 - jnp.eye(len(x)))  # Removes rounding errors.
        return jnp.mean(jnp.exp(-gamma * DISTANCES[distance](squares)))

    same = kernel(left, left, is_same=True) + kernel(right, right, is_same=True)
    return same - 2 * kernel(left, right), {}


def uniformity(
    left: Embedding,
    right: Embedding,
    context: Context,
    *,
    sharpness: Positive = 2.0,
    max_points: Annotated[int, Bounds(at_least=2)] = 128,
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Returns the logarithm of the mean of exp(-sharpness d^2) over pairs of vectors.

    Low for vectors spread evenly over the sphere (Wang and Isola, arXiv:2005.10242). PCME's code
    applies it to the samples of both views together; it is off in its released config.

    Args:
      left: embedding of the left view.
      right: embedding of the right view.
      context: key.
      sharpness: 2 in PCME.
      max_points: if there are more vectors, this many are drawn with replacement.
    """
    points = jnp.concatenate(centered(_flat(left), _flat(right)))
    if len(points) > max_points:
        points = points[jax.random.randint(context.key, (max_points,), 0, len(points))]
    squared = with_squares(points)
    pairs = -sharpness * square_distances(squared, squared)
    first, second = jnp.triu_indices(len(points), 1)
    return jax.nn.logsumexp(pairs[first, second]) - jnp.log(len(first)), {}


def concept_divergence(
    left: Embedding, right: Embedding, context: Context
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Returns CVSE's divergence of the concepts of images from those of texts, summed over pairs.

    The sum over concepts of t (log t - log i), with gradients of both (BruceW91/CVSE).

    Args:
      left: embedding of images with the extra `log_concepts` [B, K], log i.
      right: embedding of texts, likewise, log t.
      context: not read.
    """
    del context
    image, text = (
        require("concept_divergence", side.extras.get("log_concepts"), "consensus")
        for side in (left, right)
    )
    return jnp.sum(jnp.exp(text) * (text - image)), {}


def _flat(embedding: Embedding) -> jax.Array:
    vectors = embedding.vector.astype(jnp.float32)
    return vectors.reshape(-1, vectors.shape[-1])
