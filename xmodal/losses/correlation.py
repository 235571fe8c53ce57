"""Losses that correlate the scores of pairs with whether they match (VETE)."""

import jax
import jax.numpy as jnp

from xmodal.config import lookup
from xmodal.losses.context import Context, Embedding

# Under the root of the variance, as in VETE.
_SMALLEST_VARIANCE = 1e-8


def pearson(
    left: Embedding, right: Embedding, context: Context, *, statistic: str = "pearson"
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Returns minus the correlation of 2B scores with the labels +1 (partners) and -1 (shuffled).

    "Better Text Understanding Through Image-To-Text Transfer" (arXiv:1705.08386), section 3. The
    B shuffled pairs come from one random permutation of the right items. Its fixed points stay:
    on average one pair of the batch is called wrong although it is right.

    Args:
      left: embedding of the left view, B items; item i matches item i of `right`.
      right: embedding of the right view.
      context: similarity (VETE's is `cosine`) and key.
      statistic: `pearson`, or `covariance` without the division by the standard deviation.

    Returns:
      The scalar loss, and `positive` and `shuffled`, the mean scores of both kinds of pairs.

    Raises:
      UserError: unknown statistic.
    """
    compute = lookup("config.tasks.*.loss.options.statistic", statistic, STATISTICS)
    left, right = context.similarity.prepare(left), context.similarity.prepare(right)
    order = jax.random.permutation(context.key, context.left_ids.shape[0])
    shuffled = context.paired(left, jax.tree.map(lambda x: x[order], right))
    positive = context.paired(left, right)
    scalars = {"positive": jnp.mean(positive), "shuffled": jnp.mean(shuffled)}
    return -compute(positive, shuffled), scalars


def _covariance(positive: jax.Array, shuffled: jax.Array) -> jax.Array:
    # The labels have mean 0 and standard deviation 1.
    return 0.5 * (jnp.mean(positive) - jnp.mean(shuffled))


def _pearson(positive: jax.Array, shuffled: jax.Array) -> jax.Array:
    variance = jnp.var(jnp.concatenate([positive, shuffled]))
    return _covariance(positive, shuffled) / jnp.sqrt(variance + _SMALLEST_VARIANCE)


STATISTICS = {"pearson": _pearson, "covariance": _covariance}
