"""Image-text matching: trains a cross-encoder on the pairs of a batch and hard negatives."""

from typing import Annotated

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from xmodal.core.config import Bounds
from xmodal.core.errors import UserError
from xmodal.core.mesh import split_rows
from xmodal.losses.context import Context
from xmodal.similarity import Embedding


def matching(
    left: Embedding,
    right: Embedding,
    context: Context,
    *,
    negatives: Annotated[str, Bounds(one_of=("both", "either"))] = "both",
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Returns the cross-entropy of the pairs of a batch and one or two negatives for each of them.

    ITM with hard negatives of Li et al., "Align before Fuse" (2021) and BLIP (2022): each image
    gets a text, and each text an image, drawn in proportion to the softmax of the towers' logits
    over the global batch, without items of the same image; without towers, all are as probable. The
    draws have no gradient. They depend on the key and on positions in the global batch, not on the
    number of devices. The B x B logits are held as a whole, divided among the devices.

    Args:
      left: embedding of B images.
      right: embedding of their B texts.
      context: with `pair_logits`, and a key.
      negatives: "both", or for every pair the text or the image by a fair coin, "either", as in
        microsoft/Oscar, oscar/run_retrieval.py, which draws from the whole dataset.

    Returns:
      The mean over 3B or 2B pairs, less those of items without a negative; and `accuracy`, the
      share of these pairs whose more probable class is right.
    """
    compute, key = context.pair_logits, context.key
    keys = jax.random.split(key, 4)
    similarity = context.similarity
    prepared = jax.lax.stop_gradient(context.prepare(left, right))
    logits = jax.lax.stop_gradient(similarity.logits(*prepared, context.similarity_params))
    is_negative = context.ids[:, None] != context.ids
    texts, has_text = draw_negatives(keys[0], logits, is_negative, context.mesh)
    images, has_image = draw_negatives(keys[1], logits.T, is_negative.T, context.mesh)

    own = jnp.arange(len(texts))
    if negatives == "both":
        with_own_image = compute(None, jnp.stack([own, texts], axis=1), keys[2])
        with_drawn_image = compute(images, own[:, None], keys[3])
        found = jnp.concatenate([with_own_image, with_drawn_image], axis=1)  # [B, 3, 2]
        counted = jnp.stack([jnp.ones_like(has_text), has_text, has_image], axis=1)
    else:
        coin = jax.random.bernoulli(jax.random.fold_in(key, 4), shape=own.shape)
        pairs = compute(None, own[:, None], keys[2])
        drawn = jnp.where(coin, own, images), jnp.where(coin, texts, own)[:, None]
        found = jnp.concatenate([pairs, compute(*drawn, keys[3])], axis=1)  # [B, 2, 2]
        counted = jnp.stack([jnp.ones_like(has_text), jnp.where(coin, has_text, has_image)], axis=1)
    return _classify(found, counted)


def _classify(found: jax.Array, counted: jax.Array) -> tuple[jax.Array, dict[str, jax.Array]]:
    """The loss and accuracy of logits [B, K, 2] of pairs, of which the first one is a match."""
    if found.shape[-1] != 2:  # An index beyond the last class would read it in silence.
        raise UserError(
            "The loss 'matching' needs the logits of two classes; set "
            "config.model.cross_encoder.classes to 2, or the loss to 'pair_softmax'."
        )
    odds = found[..., 1] - found[..., 0]
    is_match = jnp.arange(odds.shape[1]) == 0
    # The cross-entropy of two classes.
    loss = jax.nn.softplus(jnp.where(is_match, -odds, odds))
    is_right = (odds > 0) == is_match
    return _mean(loss, counted), {"accuracy": _mean(is_right.astype(jnp.float32), counted)}


def _mean(values: jax.Array, counted: jax.Array) -> jax.Array:
    """The mean of the counted values; 0 if there are none."""
    return jnp.sum(jnp.where(counted, values, 0)) / jnp.maximum(jnp.sum(counted), 1)


def pair_softmax(
    left: Embedding,
    right: Embedding,
    context: Context,
    *,
    negatives: Annotated[int, Bounds(at_least=1)] = 15,
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Returns the cross-entropy of every image's text among texts drawn at random.

    The ranking loss of dandelin/ViLT, vilt/modules/objectives.py (compute_irtr), which draws from
    all captions of the dataset, those of the same image included; here, texts of other images in
    the global batch are drawn with replacement. The draws depend on the key and on positions in
    the global batch, not on the number of devices.

    Args:
      left: embedding of B images.
      right: embedding of their B texts.
      context: with `pair_logits`, and a key.
      negatives: number of texts drawn for an image.

    Returns:
      The mean over the images, less those without a negative; and `accuracy`, the share of them
      whose own text has the highest score.
    """
    compute, key = context.pair_logits, context.key
    keys = jax.random.split(key, 2)
    is_negative = context.ids[:, None] != context.ids
    equal = jnp.zeros(is_negative.shape, jnp.float32)
    drawn, found = jax.vmap(lambda key: draw_negatives(key, equal, is_negative, context.mesh))(
        jax.random.split(keys[0], negatives)
    )
    own = jnp.arange(is_negative.shape[0])
    scores = compute(None, jnp.concatenate([own[None], drawn]).T, keys[1])[..., -1]
    counted = found[0]
    losses = jax.nn.logsumexp(scores, axis=1) - scores[:, 0]
    is_right = scores[:, 0] > jnp.max(scores[:, 1:], axis=1)
    return _mean(losses, counted), {"accuracy": _mean(is_right.astype(jnp.float32), counted)}


def draw_negatives(
    key: jax.Array, logits: jax.Array, is_negative: jax.Array, mesh: Mesh | None = None
) -> tuple[jax.Array, jax.Array]:
    """Returns one negative of every row, drawn in proportion to the softmax of its logits.

    Args:
      key: typed key.
      logits: float32 [B, M].
      is_negative: bool [B, M]; other columns are never drawn.
      mesh: devices that share the rows.

    Returns:
      int32 [B], positions of columns, and whether the row has a negative, bool [B]; the position is
      arbitrary if it has none.
    """
    logits = split_rows(jnp.where(is_negative, logits, -jnp.inf), mesh)
    return jax.random.categorical(key, logits), jnp.any(is_negative, axis=1)
