"""Losses of the outputs of a task's module: relations (CMCM) and captions (VSRN, PinModelA)."""

from collections.abc import Sequence
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np

from xmodal.core.config import Bounds
from xmodal.core.errors import UserError
from xmodal.losses.context import Context
from xmodal.similarity import Embedding


def relation_bce(
    left: Embedding,
    right: Embedding | None,
    context: Context,
    *,
    pos_weight: Annotated[Sequence[float] | None, Bounds(at_least=0)] = None,
    both_terms: bool = False,
    select: Annotated[Sequence[int] | None, Bounds(at_least=0)] = None,
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Returns the binary cross-entropy of each relation, averaged over pairs and relations.

    Args:
      left: embedding of the left view; only the task's module reads it.
      right: embedding of the right view, likewise; None for relations predicted from one view.
      context: outputs with `logits` [B, R], and columns with `relations` [B, R], 1 where a pair
        has the relation and 0 elsewhere.
      pos_weight: R factors of the positive labels' terms; CMCM's released code uses negatives /
        positives of the training split. None means 1.
      both_terms: whether they multiply the terms of the other labels as well, as in equation 2 of
        CMCM, whose factors are the reciprocals of the relations' shares of the training split.
      select: positions of the R relations among those of the dataset; None for all.

    Returns:
      The scalar loss, and `accuracy`, the share of labels that the sign of the logit gives.
    """
    del left, right
    logits, labels = context.outputs["logits"], context.columns["relations"]
    known, count = labels.shape[1], logits.shape[1]
    select = tuple(range(known) if select is None else select)
    weights = jnp.ones(count) if pos_weight is None else jnp.asarray(pos_weight)
    if max(select) >= known or not len(select) == count == len(weights):
        raise UserError(
            f"The loss 'relation_bce' has logits of {count} relations, {len(weights)} pos_weight "
            f"and select={select}, of the dataset's {known}, counted from 0; make them equal."
        )
    labels = labels[:, np.asarray(select)].astype(jnp.float32)
    positive = weights * labels * jax.nn.softplus(-logits)
    negative = (weights if both_terms else 1) * (1 - labels) * jax.nn.softplus(logits)
    accuracy = jnp.mean(((logits > 0) == (labels > 0.5)).astype(jnp.float32))
    return jnp.mean(positive + negative), {"accuracy": accuracy}


def caption_generation(
    left: Embedding, right: Embedding | None, context: Context
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Returns the negative log-likelihood of captions, summed over words, averaged over pairs.

    Args:
      left: embedding of images, or only of captions; only the task's module reads it.
      right: embedding of the images' captions, likewise.
      context: outputs with `nll` and `targets` [B].

    Returns:
      The scalar loss, and `per_word`, the mean over words.
    """
    del left, right
    nll, targets = context.outputs["nll"], context.outputs["targets"]
    per_word = jnp.sum(nll) / jnp.maximum(jnp.sum(targets), 1)
    return jnp.mean(nll), {"per_word": per_word}
