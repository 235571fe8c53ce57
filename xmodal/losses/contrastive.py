"""Softmax losses (Crisscrossed Captions, CLIP, ALBEF, BLIP) and sigmoid losses (SigLIP, PCME)."""

from collections.abc import Mapping
from typing import Annotated

import jax
import jax.numpy as jnp

from xmodal.core.config import Bounds
from xmodal.core.mesh import split_rows
from xmodal.losses import terms
from xmodal.losses.context import ChunkSize, Context, NonNegative, require
from xmodal.similarity import Embedding

_DIRECTIONS = {"mean": 0.5, "sum": 1.0}
FORMS = {"with_positive": jax.nn.softplus, "printed": lambda margin: margin}


def softmax(
    left: Embedding,
    right: Embedding,
    context: Context,
    *,
    form: Annotated[str, Bounds(one_of=FORMS)] = "with_positive",
    directions: Annotated[str, Bounds(one_of=_DIRECTIONS)] = "mean",
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
      engine: see `losses.engine.reduce_logits`.
      chunk_size: see `losses.engine.reduce_logits`.

    Returns:
      The scalar loss averaged over queries, and `accuracy`.
    """
    wanted = {"normalizer": terms.Term(lambda logits, _: logits, terms.LOG_SUM_EXP)}
    positives, folded, accuracy = context.reduce_logits(
        left, right, wanted, engine=engine, chunk_size=chunk_size
    )

    loss = jnp.zeros((), jnp.float32)
    for normalizer in folded["normalizer"]:
        # A query without negatives has nothing to learn from; the printed form would be -1e30.
        # With this comparison, a NaN counts as a negative and shows in the loss.
        has_none = normalizer < terms.MASKED / 2
        loss += jnp.mean(jnp.where(has_none, 0.0, FORMS[form](normalizer - positives)))
    return _DIRECTIONS[directions] * loss, {"accuracy": accuracy}


def momentum_softmax(
    left: Embedding, right: Embedding, context: Context, *, soft: NonNegative = 0.0
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Returns the cross-entropy of each item against a batch and a queue of the copies' items.

    The image-text contrastive loss of Li et al., "Align before Fuse" (2021), equation 6, and BLIP
    (2022), models/blip_retrieval.py. The copies' items of the batch and the queue come from the
    task's module, `momentum_queue`. The target of an item is `soft` times the copies' softmax plus
    (1 - `soft`) shared equally by the items of its image.

    Args:
      left: embedding of B items.
      right: embedding of their partners.
      context: with the outputs of `momentum_queue`.
      soft: share of the copies' softmax in the targets, 0 to 1.

    Returns:
      The mean over both directions, and `accuracy`, the share of items whose best item is of the
      same image.
    """
    copies = context.outputs
    ids, size = copies["ids"], len(left.vector)
    same = ids[:size, None] == ids[None, :]
    hard = same / jnp.sum(same, axis=1, keepdims=True)
    loss, correct = jnp.zeros(()), jnp.zeros(())
    for side, query in (("left", left), ("right", right)):
        logits = _logits(context, query.vector, side, copies)
        predicted = jax.nn.softmax(_logits(context, copies[side][:size], side, copies))
        targets = jax.lax.stop_gradient(soft * predicted + (1 - soft) * hard)
        loss += 0.5 * jnp.mean(-jnp.sum(targets * jax.nn.log_softmax(logits), axis=1))
        best = jnp.argmax(logits, axis=1)
        correct += 0.5 * jnp.mean(jnp.take_along_axis(same, best[:, None], axis=1))
    return loss, {"accuracy": correct}


def _logits(
    context: Context, query: jax.Array, side: str, copies: Mapping[str, jax.Array]
) -> jax.Array:
    """Logits [B, B + Q] of vectors of one side with the copies' of the other."""
    other = Embedding(copies["right" if side == "left" else "left"])
    pair = (Embedding(query), other) if side == "left" else (other, Embedding(query))
    logits = context.similarity.logits(*context.prepare(*pair), context.similarity_params)
    return split_rows(logits if side == "left" else logits.T, context.mesh)


def sigmoid(
    left: Embedding,
    right: Embedding,
    context: Context,
    *,
    engine: str = "dense",
    chunk_size: ChunkSize = 1024,
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Returns SigLIP's loss: -log sigmoid(+-logit) of all pairs, divided by the batch size.

    SigLIP learns temperature and bias, starting at 0.1 and -10 (arXiv:2303.15343, algorithm 1);
    the similarity sets both. Items that are neither partners nor negatives are left out.

    Args:
      left: embedding of the left view, B items; item i matches item i of `right`.
      right: embedding of the right view.
      context: ids, similarity and mesh.
      engine: see `losses.engine.reduce_logits`.
      chunk_size: see `losses.engine.reduce_logits`.

    Returns:
      The scalar loss, and `accuracy`.
    """
    total, accuracy = _classify_pairs(left, right, context, engine, chunk_size)
    return total / context.ids.shape[0], {"accuracy": accuracy}


def soft_contrastive(
    left: Embedding,
    right: Embedding,
    context: Context,
    *,
    directions: Annotated[str, Bounds(one_of=_DIRECTIONS)] = "sum",
    kl_weight: NonNegative = 1e-5,
    engine: str = "dense",
    chunk_size: ChunkSize = 1024,
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Returns PCME's loss: -log p of partners, -log (1 - p) of negatives, and a KL divergence.

    p is the match probability, the sigmoid of the similarity's logits. As in the released code
    (naver-ai/pcme), everything is summed over pairs, items and dimensions, and the divergence
    -1/2 (1 + l - m^2 - e^l) takes log_sigma for l, as if it were a log-variance, and for m the
    mean of an item's samples.

    Args:
      left: embedding of the left view with `log_sigma`, B items of K samples each.
      right: embedding of the right view.
      context: ids, similarity (PCME's is `match_probability`) and mesh.
      directions: `sum` counts every pair twice, once for each direction (the released code),
        `mean` once.
      kl_weight: weight of the divergence of both views; 0 for embeddings without `log_sigma`.
      engine: see `losses.engine.reduce_logits`.
      chunk_size: see `losses.engine.reduce_logits`.

    Returns:
      The scalar loss, and `pairs`, `kl` (unweighted) and `accuracy`.
    """
    total, accuracy = _classify_pairs(left, right, context, engine, chunk_size)
    # Both directions have the same pairs.
    scalars = {"pairs": 2 * _DIRECTIONS[directions] * total, "accuracy": accuracy}
    if isinstance(kl_weight, (int, float)) and kl_weight == 0:
        return scalars["pairs"], scalars
    scalars["kl"] = _compute_divergence(left) + _compute_divergence(right)
    return scalars["pairs"] + kl_weight * scalars["kl"], scalars


def _classify_pairs(
    left: Embedding, right: Embedding, context: Context, engine: str, chunk_size: int
) -> tuple[jax.Array, jax.Array]:
    """Returns the summed cross-entropy of partners and negatives, and the accuracy."""
    wanted = {"negatives": terms.Term(lambda logits, _: jax.nn.softplus(logits), terms.SUM)}
    positives, folded, accuracy = context.reduce_logits(
        left, right, wanted, engine=engine, chunk_size=chunk_size
    )
    return jnp.sum(jax.nn.softplus(-positives)) + jnp.sum(folded["negatives"][0]), accuracy


def _compute_divergence(embedding: Embedding) -> jax.Array:
    log_variance = require("soft_contrastive", embedding.log_sigma, "gaussian")
    samples = embedding.vector
    mean = jnp.mean(samples, axis=1) if samples.ndim == 3 else samples
    return -0.5 * jnp.sum(1 + log_variance - jnp.square(mean) - jnp.exp(log_variance))
