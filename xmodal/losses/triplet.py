"""Hinge losses on a positive and its negatives: VSE++, PVSE, CMCM and AOQ."""

import dataclasses
from typing import Annotated

import jax
import jax.numpy as jnp

from xmodal.core.config import Bounds
from xmodal.losses import terms
from xmodal.losses.context import ChunkSize, Context, NonNegative, Positive
from xmodal.similarity import Embedding

_SEMI_HARD = terms.Term(
    lambda logits, p: jnp.where(logits >= terms.tie_with(p), terms.MASKED, logits), terms.MAXIMUM
)
# The lowest logit that is not below the partner's, with its sign changed.
_EASIEST_ABOVE = terms.Term(
    lambda logits, p: jnp.where(logits >= terms.tie_with(p), -logits, terms.MASKED), terms.MAXIMUM
)
MINING: dict[str, dict[str, terms.Term]] = {
    "all": {},
    "hardest": {"mined": terms.HARDEST},
    "semi_hard": {"mined": _SEMI_HARD},
    "semi_hard_or_easiest": {"mined": _SEMI_HARD, "easiest": _EASIEST_ABOVE},
}


def triplet(
    left: Embedding,
    right: Embedding,
    context: Context,
    *,
    margin: NonNegative = 0.2,
    mining: Annotated[str, Bounds(one_of=MINING)] = "hardest",
    all_share: Annotated[float | jax.Array, Bounds(at_least=0, at_most=1)] = 0.0,
    reduction: Annotated[str, Bounds(one_of=("sum", "mean"))] = "sum",
    engine: str = "dense",
    chunk_size: ChunkSize = 1024,
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Returns the sum of max(0, margin + negative - positive) over both directions.

    `sum` is VSE++'s reduction (fartashf/vsepp), `mean` PVSE's (yalesong/pvse).

    Args:
      left: embedding of the left view, B items; item i matches item i of `right`.
      right: embedding of the right view.
      context: ids, similarity and mesh.
      margin: amount by which a partner should score above a negative.
      mining: which negatives of an item count: `all`; `hardest`, the one that scores highest;
        `semi_hard`, the highest of those below the partner, none if all score higher; or
        `semi_hard_or_easiest`, the lowest of all in that case (FaceNet's code in TensorFlow).
      all_share: share of the loss over all negatives; `mining` has the rest. A schedule from 1 to 0
        starts a run with all negatives, as in VSE-infinity's first epoch.
      reduction: `sum` over the batch, or `mean`: the mean over items of each direction, for `all`
        over the B x B pairs.
      engine: see `losses.engine.reduce_logits`.
      chunk_size: see `losses.engine.reduce_logits`.

    Returns:
      The scalar loss, and `accuracy`.
    """
    size = context.ids.shape[0]
    shares = {"sum": (1.0, 1.0), "mean": (1.0 / size, 1.0 / size**2)}
    per_item, per_pair = shares[reduction]
    if mining == "all":
        all_share = 1.0
    wanted = dict(MINING[mining])
    if isinstance(all_share, jax.Array) or all_share > 0:
        wanted["all"] = terms.Term(lambda logits, p: jax.nn.relu(margin + logits - p), terms.SUM)
    positives, folded, accuracy = context.reduce_logits(
        left, right, wanted, engine=engine, chunk_size=chunk_size
    )

    loss = jnp.zeros((), jnp.float32)
    if "all" in folded:
        loss += all_share * per_pair * jnp.sum(jnp.stack(folded["all"]))
    if "mined" in folded:
        # An item without such a negative has `MASKED`, far below every margin.
        found = jnp.stack(folded["mined"])
        if "easiest" in folded:
            above = -jnp.stack(folded["easiest"])
            above = jnp.where(above < -terms.MASKED, above, terms.MASKED)
            found = jnp.where(found > terms.MASKED, found, above)
        hinges = jax.nn.relu(margin + found - positives)
        loss += (1 - all_share) * per_item * jnp.sum(hinges)
    return loss, {"accuracy": accuracy}


def distance_triplet(
    left: Embedding,
    right: Embedding,
    context: Context,
    *,
    margin: NonNegative = 0.3,
    engine: str = "dense",
    chunk_size: ChunkSize = 1024,
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Returns CMCM's triplet loss: the hardest negative of each item comes from either view.

    The 2B items of both views are anchors alike. The positive of an anchor is its partner, its
    negatives are all items of both views with another id; the mean over anchors of
    max(0, margin + hardest negative - positive). The released code compares unit vectors by
    `euclidean`: a margin between distances is not one between cosines.

    Args:
      left: embedding of the left view, B items; item i matches item i of `right`.
      right: embedding of the right view.
      context: ids, a symmetric similarity, and mesh.
      margin: amount by which a partner should score above a negative.
      engine: see `losses.engine.reduce_logits`.
      chunk_size: see `losses.engine.reduce_logits`.

    Returns:
      The scalar loss, and `accuracy`: the share of anchors that score their partner above every
      negative.
    """
    sides = context.prepare(left, right)
    positives = jnp.tile(context.paired(*sides), 2)
    items = jax.tree.map(lambda *both: jnp.concatenate(both), *sides)
    both = dataclasses.replace(context, ids=jnp.tile(context.ids, 2))
    wanted = {"hardest": terms.HARDEST}
    folded, accuracy = both.reduce_prepared(
        items, items, positives, wanted, engine=engine, chunk_size=chunk_size
    )
    hinges = jax.nn.relu(margin + folded["hardest"][0] - positives)
    return jnp.mean(hinges), {"accuracy": accuracy}


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

    Chen et al., "Adaptive Offline Quintuplet Loss for Image-Text Matching" (ECCV 2020), and the
    authors' code, sunnychencool/AOQ.

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
      engine: see `losses.engine.reduce_logits`.
      chunk_size: see `losses.engine.reduce_logits`.

    Returns:
      The scalar loss, `accuracy` among the batch, and `mined_accuracy`: the share of pairs that
      score above all of their mined negatives.
    """
    wanted = {"hardest": terms.HARDEST}
    positives, folded, accuracy = context.reduce_logits(
        left, right, wanted, engine=engine, chunk_size=chunk_size
    )

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
    return loss, {"accuracy": accuracy, "mined_accuracy": above}
