"""The adaptive offline quintuplet loss: hardest negatives of the batch, and mined ones.

Chen et al., "Adaptive Offline Quintuplet Loss for Image-Text Matching" (ECCV 2020),
and the authors' code, sunnychencool/AOQ.
"""

import jax
import jax.numpy as jnp

from xmodal.losses import terms
from xmodal.losses.accuracy import NOT_BELOW, compute_accuracy
from xmodal.losses.context import ChunkSize, Context, NonNegative, Positive
from xmodal.similarity import Embedding


def quintuplet(
    left: Embedding,
    right: Embedding,
    context: Context,
    *,
    margin: NonNegative = 0.2,
    offline_margin: NonNegative = 0.0,
    weight: NonNegative = 1.5,
    weight_scale: Positive = 0.3,
    engine: str = "dense",
    chunk_size: ChunkSize = 1024,
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Returns AOQ's loss, the sum of six hinges over the batch.

    With d, the similarity of an image I and its text T, and mined negatives I- of T and T- of I:

    - max(0, margin + h - d), where h is the hardest negative of I in the batch, weighted by
      weight - (d(I, T-) - h) / weight_scale, and the same for T and d(I-, T). Weights have a
      gradient and may be negative, as in the authors' code;
    - max(0, offline_margin + n - d), where n is d(I, T-), d(I-, T), d(I-, T-), and the similarity
      of the image of T- to a text of I-.

    An item without negatives in the batch has no online hinge.

    Args:
      left: embedding of the images, B items; item i matches item i of `right`.
      right: embedding of the texts.
      context: ids, similarity, mesh and the mined negatives.
      margin: amount by which a partner should score above the hardest negative of the batch.
      offline_margin: the same for mined negatives.
      weight: the constant beta of the weight.
      weight_scale: the constant alpha.
      engine: see `losses.engine.fold`.
      chunk_size: see `losses.engine.fold`.

    Returns:
      The scalar loss, `accuracy` among the batch, and `mined_accuracy`: the share of pairs that
      score above all of their mined negatives.
    """
    positives, folded = context.fold(
        left, right, {"hardest": terms.HARDEST, "not_below": NOT_BELOW},
        engine=engine, chunk_size=chunk_size,
    )  # fmt: skip

    def score(image: Embedding, text: Embedding) -> jax.Array:
        return context.paired(*context.prepare(image, text))

    (image, text), (image_of_text, text_of_image) = context.mined
    anchored = score(left, text), score(image, right)
    apart = score(image, text), score(image_of_text, text_of_image)
    loss = jnp.zeros((), jnp.float32)
    for hardest, mined in zip(folded["hardest"], anchored, strict=True):
        weights = weight - (mined - hardest) / weight_scale
        loss += jnp.sum(weights * jax.nn.relu(margin + hardest - positives))
    offline = jnp.stack([*anchored, *apart])
    loss += jnp.sum(jax.nn.relu(offline_margin + offline - positives))
    above = jnp.mean((jnp.max(offline, axis=0) < positives).astype(jnp.float32))
    return loss, {"accuracy": compute_accuracy(folded), "mined_accuracy": above}
