"""In-batch accuracy, the scalar that every loss with negatives reports."""

import jax
import jax.numpy as jnp

from xmodal.losses import engine as engines
from xmodal.losses import terms

# Counts the negatives that do not score below the positive, including NaN.
NOT_BELOW = terms.Term(
    lambda logits, positives: (~(logits < terms.tie_with(positives))).astype(jnp.float32),
    terms.SUM,
)


def compute_accuracy(folded: engines.Folded) -> jax.Array:
    """Returns the share of left items that score their partner above every negative.

    Args:
      folded: results of terms, among them `NOT_BELOW` as "not_below".
    """
    rows, _ = folded["not_below"]
    return jnp.mean((rows == 0).astype(jnp.float32))
