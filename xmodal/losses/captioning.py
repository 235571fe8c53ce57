"""Caption generation, as a second task besides retrieval (VSRN) or to learn words (PinModelA)."""

import jax
import jax.numpy as jnp

from xmodal.losses.context import Context
from xmodal.similarity import Embedding


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
