"""Logits of pairs of a batch, by position, from the views of both sides."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from xmodal.base import mesh as mesh_lib
from xmodal.losses.context import PairLogits
from xmodal.models import Embedding, Mode, PairScorer
from xmodal.training.tree import Tree


def make_pair_logits(
    scorer: PairScorer,
    params: Tree,
    image: Embedding,
    text: Embedding,
    *,
    mode: Mode,
    key: jax.Array,
    mesh: Mesh | None = None,
) -> PairLogits:
    """Returns the function that scores pairs of a batch; each item is prepared once.

    Args:
      scorer: the pair scorer.
      params: parameters of the whole model.
      image: embedding of the images of the global batch, with `features`.
      text: embedding of the texts.
      mode: whether the scorer is trained or frozen.
      key: seeds the dropout of the prepared items.
      mesh: devices that the batch is split over.
    """
    of_image, of_text = jax.random.split(key)
    images, texts = (
        scorer.prepare(side, params, view.extras["features"], mode=mode, key=each)
        for side, view, each in (("image", image, of_image), ("text", text, of_text))
    )

    def take(items: Any, at: jax.Array) -> Any:
        found = jax.tree.map(lambda leaf: jnp.take(leaf, at, axis=0), items)
        if mesh is None:
            return found
        return jax.lax.with_sharding_constraint(found, mesh_lib.batch_sharded(mesh))

    def compute(image_at: jax.Array | None, text_at: jax.Array, key: jax.Array) -> jax.Array:
        chosen = images if image_at is None else take(images, image_at)
        return scorer.logits(params, chosen, take(texts, text_at), mode=mode, key=key)

    return compute
