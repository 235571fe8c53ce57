"""Losses that classify each pair of the batch independently as a match or not."""

from typing import Annotated

import jax
import jax.numpy as jnp

from xmodal.core.config import Bounds
from xmodal.core.errors import UserError
from xmodal.losses import terms
from xmodal.losses.context import ChunkSize, Context, NonNegative
from xmodal.similarity import Embedding

# Both directions have the same pairs.
DIRECTIONS = {"mean": 1.0, "sum": 2.0}


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
    return total / context.left_ids.shape[0], {"accuracy": accuracy}


def soft_contrastive(
    left: Embedding,
    right: Embedding,
    context: Context,
    *,
    directions: Annotated[str, Bounds(one_of=DIRECTIONS)] = "sum",
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

    Raises:
      UserError: embeddings without `log_sigma`.
    """
    total, accuracy = _classify_pairs(left, right, context, engine, chunk_size)
    scalars = {"pairs": DIRECTIONS[directions] * total, "accuracy": accuracy}
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
    total = jnp.sum(jax.nn.softplus(-positives)) + jnp.sum(folded["negatives"][0])
    return total, accuracy


def _compute_divergence(embedding: Embedding) -> jax.Array:
    if embedding.log_sigma is None:
        raise UserError(
            "The loss 'soft_contrastive' needs embeddings with a spread; set head.name='gaussian' "
            "on both sides, or set the option kl_weight=0."
        )
    samples = embedding.vector
    mean = jnp.mean(samples, axis=1) if samples.ndim == 3 else samples
    log_variance = embedding.log_sigma
    return -0.5 * jnp.sum(1 + log_variance - jnp.square(mean) - jnp.exp(log_variance))
