"""The in-batch softmax loss of the Crisscrossed Captions paper, equation (1)."""

import jax
import jax.numpy as jnp

from xmodal.losses import engine as engines

FORMS = ("with_positive", "printed")
DIRECTIONS = {"mean": 0.5, "sum": 1.0}


def softmax(
    left: jax.Array,
    right: jax.Array,
    groups: jax.Array,
    *,
    form: str = "with_positive",
    directions: str = "mean",
    engine: str = "dense",
    chunk_size: int = 1024,
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Softmax cross-entropy of each pair against every other item of the global batch.

    For a query with positive score p and negatives n_j, `with_positive` is
    softplus(logsumexp(n) - p), the ordinary cross-entropy with the positive in the denominator, as
    the authors' released code (tensorflow/lingvo, tasks/milan) computes it. `printed` is
    logsumexp(n) - p, equation (1) letter for letter: unbounded below, so it needs normalised
    embeddings or clipped gradients. Pairs of one group are neither positives nor negatives.

    Args:
      left: [B, D] float32 prepared embeddings (see `losses.similarity`), row i matching row i of
        `right`.
      right: [B, D] float32.
      groups: [B] int32; equal numbers are ignored as negatives (captions of one image).
      form: `with_positive` or `printed`.
      directions: `mean` weights left-to-right and right-to-left 0.5 each (the code), `sum` adds them
        (the equation).
      engine: see `losses.engine.fold`.
      chunk_size: see `losses.engine.fold`.

    Returns:
      The scalar loss averaged over queries, and scalars for the log: `accuracy`, the share of
      left items scoring their own partner above every negative.

    Raises:
      ValueError: unknown form, directions or engine.
    """
    if form not in FORMS:
        raise ValueError(f"Unknown softmax form {form!r}; known: {list(FORMS)}.")
    if directions not in DIRECTIONS:
        raise ValueError(f"Unknown softmax directions {directions!r}; known: {list(DIRECTIONS)}.")
    reducers = {"normaliser": engines.LOG_SUM_EXP, "hardest": engines.MAXIMUM}
    folded = engines.fold(left, right, groups, reducers, engine=engine, chunk_size=chunk_size)
    positives = engines.positive_scores(left, right)

    total = jnp.zeros((), jnp.float32)
    for normaliser in folded["normaliser"]:
        margin = normaliser - positives
        # A row without negatives has nothing to learn from; the printed form would return -1e30.
        per_query = jax.nn.softplus(margin) if form == "with_positive" else margin
        total += jnp.mean(jnp.where(normaliser > engines.MASKED / 2, per_query, 0.0))
    accuracy = jnp.mean((positives > folded["hardest"][0]).astype(jnp.float32))
    return DIRECTIONS[directions] * total, {"accuracy": jax.lax.stop_gradient(accuracy)}
