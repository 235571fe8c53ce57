"""The in-batch softmax loss of the Crisscrossed Captions paper, equation (1); CLIP's loss."""

from typing import Annotated

import jax
import jax.numpy as jnp

from xmodal.base.config import Bounds
from xmodal.losses import terms
from xmodal.losses.accuracy import NOT_BELOW, compute_accuracy
from xmodal.losses.context import ChunkSize, Context
from xmodal.similarity import Embedding

DIRECTIONS = {"mean": 0.5, "sum": 1.0}
FORMS = {"with_positive": jax.nn.softplus, "printed": lambda margin: margin}


def softmax(
    left: Embedding,
    right: Embedding,
    context: Context,
    *,
    form: Annotated[str, Bounds(one_of=FORMS)] = "with_positive",
    directions: Annotated[str, Bounds(one_of=DIRECTIONS)] = "mean",
    engine: str = "dense",
    chunk_size: ChunkSize = 1024,
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Returns the softmax cross-entropy of each pair against its negatives in the global batch.

    For a query with positive logit p and negatives n, `with_positive` is
    softplus(logsumexp(n) - p), the ordinary cross-entropy with the positive in the denominator,
    as the authors' released code (tensorflow/lingvo, tasks/milan) computes it. `printed` is
    logsumexp(n) - p, equation (1) exactly as printed: unbounded below, so it needs normalized
    embeddings or clipped gradients. A query without negatives has loss 0.

    Args:
      left: embedding of the left view, B items; item i matches item i of `right`.
      right: embedding of the right view.
      context: ids, similarity (its temperature is the loss's) and mesh.
      form: `with_positive` or `printed`.
      directions: `mean` weights left-to-right and right-to-left 0.5 each (the released code),
        `sum` adds them (the printed equation).
      engine: see `losses.engine.fold`.
      chunk_size: see `losses.engine.fold`.

    Returns:
      The scalar loss averaged over queries, and `accuracy`.

    Raises:
      UserError: unknown engine.
    """
    wanted = {
        "normalizer": terms.Term(lambda logits, _: logits, terms.LOG_SUM_EXP),
        "not_below": NOT_BELOW,
    }
    positives, folded = context.fold(left, right, wanted, engine=engine, chunk_size=chunk_size)

    loss = jnp.zeros((), jnp.float32)
    for normalizer in folded["normalizer"]:
        # A query without negatives has nothing to learn from; the printed form would be -1e30.
        # With this comparison, a NaN counts as a negative and shows in the loss.
        has_none = normalizer < terms.MASKED / 2
        loss += jnp.mean(jnp.where(has_none, 0.0, FORMS[form](normalizer - positives)))
    return DIRECTIONS[directions] * loss, {"accuracy": compute_accuracy(folded)}
