"""A contrastive loss against momentum copies of the towers, with their softmax as soft targets."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp

from xmodal.base.mesh import split_rows
from xmodal.losses.context import Context, NonNegative
from xmodal.similarity import Embedding


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
