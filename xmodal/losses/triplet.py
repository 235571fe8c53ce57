"""Hinge losses on a positive and a negative: VSE++, PVSE and CMCM."""

from collections.abc import Callable
from typing import Annotated

import jax
import jax.numpy as jnp

from xmodal.base.config import Bounds
from xmodal.losses import engine as engines
from xmodal.losses import terms
from xmodal.losses.accuracy import NOT_BELOW, compute_accuracy
from xmodal.losses.context import ChunkSize, Context, NonNegative
from xmodal.losses.switch import Choice, switch
from xmodal.similarity import Embedding

_SEMI_HARD = terms.Term(
    lambda logits, p: jnp.where(logits >= terms.tie_with(p), terms.MASKED, logits), terms.MAXIMUM
)
# The lowest logit that is not below the partner's, with its sign changed.
_EASIEST_ABOVE = terms.Term(
    lambda logits, p: jnp.where(logits >= terms.tie_with(p), -logits, terms.MASKED), terms.MAXIMUM
)


MINING = ("all", "hardest", "semi_hard", "semi_hard_or_easiest")


def _first_or_lowest(below: jax.Array, minus_above: jax.Array) -> jax.Array:
    """Returns the negative below the partner, or the lowest above it; `MASKED` for neither."""
    above = jnp.where(minus_above > terms.MASKED, -minus_above, terms.MASKED)
    return jnp.where(below > terms.MASKED, below, above)


def triplet(
    left: Embedding,
    right: Embedding,
    context: Context,
    *,
    margin: NonNegative = 0.2,
    mining: Annotated[str | Choice, Bounds(one_of=MINING)] = "hardest",
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
      reduction: `sum` over the batch, or `mean`: the mean over items of each direction, for `all`
        over the B x B pairs.
      engine: see `losses.engine.fold`.
      chunk_size: see `losses.engine.fold`.

    Returns:
      The scalar loss, and `accuracy`.

    Raises:
      UserError: unknown engine.
    """
    size = context.left_ids.shape[0]
    shares = {"sum": (1.0, 1.0), "mean": (1.0 / size, 1.0 / size**2)}
    per_item, per_pair = shares[reduction]

    def fold(*mined: terms.Term) -> tuple[jax.Array, list[jax.Array], jax.Array]:
        wanted = {str(place): term for place, term in enumerate(mined)}
        positives, folded = context.fold(
            left, right, wanted | {"not_below": NOT_BELOW}, engine=engine, chunk_size=chunk_size
        )
        return positives, [jnp.stack(folded[name]) for name in wanted], compute_accuracy(folded)

    def mine_all() -> tuple[jax.Array, jax.Array]:
        hinges = terms.Term(lambda logits, p: jax.nn.relu(margin + logits - p), terms.SUM)
        _, [summed], accuracy = fold(hinges)
        return per_pair * jnp.sum(summed), accuracy

    def mine_one(
        *mined: terms.Term, choose: Callable[..., jax.Array] = lambda only: only
    ) -> tuple[jax.Array, jax.Array]:
        # An item without such a negative gets `MASKED`, far below every margin.
        positives, found, accuracy = fold(*mined)
        hinges = jax.nn.relu(margin + choose(*found) - positives)
        return per_item * jnp.sum(hinges), accuracy

    loss, accuracy = switch(
        mining,
        {
            "all": mine_all,
            "hardest": lambda: mine_one(terms.HARDEST),
            "semi_hard": lambda: mine_one(_SEMI_HARD),
            "semi_hard_or_easiest": lambda: mine_one(
                _SEMI_HARD, _EASIEST_ABOVE, choose=_first_or_lowest
            ),
        },
    )
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
      engine: see `losses.engine.fold`.
      chunk_size: see `losses.engine.fold`.

    Returns:
      The scalar loss, and `accuracy`: the share of anchors that score their partner above every
      negative.
    """
    sides = context.prepare(left, right)
    positives = jnp.tile(context.paired(*sides), 2)
    items = jax.tree.map(lambda *both: jnp.concatenate(both), *sides)
    ids = jnp.concatenate([context.left_ids, context.right_ids])
    folded = engines.fold(
        items,
        items,
        context.similarity.logits,
        params=context.similarity_params,
        left_ids=ids,
        right_ids=ids,
        left_positive=positives,
        right_positive=positives,
        terms={"hardest": terms.HARDEST, "not_below": NOT_BELOW},
        engine=engine,
        chunk_size=chunk_size,
        mesh=context.mesh,
        pair_bytes=context.similarity.cost(items, items).bytes,
    )
    hinges = jax.nn.relu(margin + folded["hardest"][0] - positives)
    return jnp.mean(hinges), {"accuracy": compute_accuracy(folded)}
