"""The in-batch softmax loss of the Crisscrossed Captions paper, equation (1)."""

import jax
import jax.numpy as jnp

from xmodal.config import lookup
from xmodal.losses import engine as engines

DIRECTIONS = {"mean": 0.5, "sum": 1.0}
FORMS = {"with_positive": jax.nn.softplus, "printed": lambda margin: margin}


def softmax_loss(
    left: jax.Array,
    right: jax.Array,
    groups: jax.Array,
    *,
    form: str = "with_positive",
    directions: str = "mean",
    temperature: float = 1.0,
    engine: str = "dense",
    chunk_size: int = 1024,
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Softmax cross-entropy of each pair against every other item of the global batch.

    For a query with positive score p and negatives n, `with_positive` is
    softplus(logsumexp(n) - p), the ordinary cross-entropy with the positive in the denominator,
    as the authors' released code (tensorflow/lingvo, tasks/milan) computes it. `printed` is
    logsumexp(n) - p, equation (1) letter for letter: unbounded below, so it needs normalised
    embeddings or clipped gradients. Two pairs of one group are neither positive nor negative.

    Args:
      left: [B, D] float32 prepared embeddings (see `losses.similarity`), row i matching row i of
        `right`.
      right: [B, D] float32.
      groups: [B] int32; items with equal numbers (captions of one image) ignore each other.
      form: `with_positive` or `printed`.
      directions: `mean` weights left-to-right and right-to-left 0.5 each (the released code),
        `sum` adds them (the printed equation).
      temperature: divides every score; 1 in the paper. A model trained from scratch wants scores
        of about unit spread at its start: near sqrt(D) for dot products, 0.05 to 0.1 for cosines.
      engine: see `losses.engine.fold`.
      chunk_size: see `losses.engine.fold`.

    Returns:
      The scalar loss averaged over queries, and scalars for the log: `accuracy`, the share of
      left items that score their own partner above every negative.

    Raises:
      UserError: unknown form, directions or engine.
    """
    per_query = lookup("config.tasks.*.options.form", form, FORMS)
    weight = lookup("config.tasks.*.options.directions", directions, DIRECTIONS)
    left = left / temperature
    reducers = {"normaliser": engines.LOG_SUM_EXP, "hardest": engines.MAXIMUM}
    folded = engines.fold(left, right, groups, reducers, engine=engine, chunk_size=chunk_size)
    positives = engines.positive_scores(left, right)

    loss = jnp.zeros((), jnp.float32)
    for normaliser in folded["normaliser"]:
        # A query without negatives has nothing to learn from; the printed form would be -1e30.
        # Asked this way round, a NaN counts as a negative and is seen in the loss.
        has_none = normaliser < engines.MASKED / 2
        loss += jnp.mean(jnp.where(has_none, 0.0, per_query(normaliser - positives)))
    accuracy = jnp.mean((positives > folded["hardest"][0]).astype(jnp.float32))
    return weight * loss, {"accuracy": jax.lax.stop_gradient(accuracy)}
