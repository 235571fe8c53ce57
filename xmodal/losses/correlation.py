"""Losses that correlate the scores of pairs with whether they match (VETE).

"Better Text Understanding Through Image-To-Text Transfer" (arXiv:1705.08386), section 3. A batch of
B pairs gives 2B scores: those of the B partners, with the label +1, and those of B shuffled pairs,
with the label -1. The shuffled pairs come from one random permutation of the right items. Its fixed
points are kept: on average, one pair of the batch is labeled wrong although it is right. Each loss
is minus a statistic of scores and labels over the whole batch, so the batch size affects the loss.
"""

import jax
import jax.numpy as jnp

from xmodal.losses.context import Context, Positive
from xmodal.similarity import Embedding

# Added under the root of the variance, as in VETE.
_SMALLEST_VARIANCE = 1e-8


def pearson(
    left: Embedding, right: Embedding, context: Context
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Returns minus the correlation of 2B scores with their labels.

    Args:
      left: embedding of the left view, B items; item i matches item i of `right`.
      right: embedding of the right view.
      context: similarity (VETE's is `cosine`) and key.

    Returns:
      The scalar loss, and `positive` and `shuffled`, the mean scores of both kinds of pairs.
    """
    positive, shuffled = _score(left, right, context)
    variance = jnp.var(jnp.concatenate([positive, shuffled]))
    correlation = _covariance(positive, shuffled) / jnp.sqrt(variance + _SMALLEST_VARIANCE)
    return -correlation, _means(positive, shuffled)


def covariance(
    left: Embedding, right: Embedding, context: Context
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Returns minus the covariance of 2B scores with their labels; see `pearson`."""
    positive, shuffled = _score(left, right, context)
    return -_covariance(positive, shuffled), _means(positive, shuffled)


def soft_kendall(
    left: Embedding, right: Embedding, context: Context, *, alpha: Positive
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Returns minus VETE's SKT, Kendall's correlation of 2B scores with a soft sign.

    The sum of tanh(alpha (x_i - x_j) (y_i - y_j)) over all i and j, divided by n (n - 1) / 2 with
    n = 2B. Labels are equal within both kinds of pairs, which leaves B x B terms that occur twice.
    The largest value is 2B / (2B - 1).

    Args:
      left: see `pearson`.
      right: see `pearson`.
      context: see `pearson`.
      alpha: sharpness of the sign; VETE compares 0.2, 1 and 5.

    Returns:
      See `pearson`.
    """
    positive, shuffled = _score(left, right, context)
    signs = jnp.tanh(2 * alpha * (positive[:, None] - shuffled[None, :]))
    size = positive.shape[0]
    return -2 * jnp.sum(signs) / (size * (2 * size - 1)), _means(positive, shuffled)


def _score(left: Embedding, right: Embedding, context: Context) -> tuple[jax.Array, jax.Array]:
    """The scores of partners and of shuffled pairs, [B] each."""
    prepared = context.prepare(left, right)
    order = jax.random.permutation(context.key, context.ids.shape[0])
    shuffled = jax.tree.map(lambda x: x[order], prepared[1])
    return context.paired(*prepared), context.paired(prepared[0], shuffled)


def _covariance(positive: jax.Array, shuffled: jax.Array) -> jax.Array:
    # The labels have mean 0 and standard deviation 1.
    return 0.5 * (jnp.mean(positive) - jnp.mean(shuffled))


def _means(positive: jax.Array, shuffled: jax.Array) -> dict[str, jax.Array]:
    return {"positive": jnp.mean(positive), "shuffled": jnp.mean(shuffled)}
