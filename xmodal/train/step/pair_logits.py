"""Logits of pairs of a batch, by position, from the views of both sides."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from xmodal.core.mesh import split_rows
from xmodal.losses.context import PairLogits
from xmodal.models import Embedding, Mode, PairScorer
from xmodal.train.step import batch_parts
from xmodal.train.tree import Tree


def make_pair_logits(
    scorer: PairScorer,
    params: Tree,
    image: Embedding,
    text: Embedding,
    *,
    mode: Mode,
    key: jax.Array,
    mesh: Mesh | None = None,
    steps: int = 1,
) -> PairLogits:
    """Returns the function that scores pairs of a batch.

    Texts are prepared once. So are images on one device; several exchange the features of drawn
    images and prepare them for every call: keys and values of all layers, and their gradients,
    would be many times as large.

    Args:
      scorer: the pair scorer.
      params: parameters of the whole model.
      image: embedding of the images of the global batch, with `features`.
      text: embedding of the texts.
      mode: whether the scorer is trained or frozen.
      key: seeds the dropout of the prepared items.
      mesh: devices that the batch is split over.
      steps: parts in which the images of a call are processed, see `accumulation`.
    """
    of_image, of_text = jax.random.split(key)
    texts = scorer.prepare("text", params, text.extras["features"], mode=mode, key=of_text)

    def prepare(features: Any) -> Any:
        return scorer.prepare("image", params, features, mode=mode, key=of_image)

    is_late = steps > 1 or (mesh is not None and mesh.size > 1)
    features = image.extras["features"]
    images = features if is_late else prepare(features)

    def take(items: Any, at: jax.Array) -> Any:
        return split_rows(jax.tree.map(lambda leaf: jnp.take(leaf, at, axis=0), items), mesh)

    def score(pairs: tuple[Any, Any], key: jax.Array) -> jax.Array:
        chosen, read = pairs
        chosen = prepare(chosen) if is_late else chosen
        return scorer.logits(params, chosen, read, mode=mode, key=key)

    def compute(image_at: jax.Array | None, text_at: jax.Array, key: jax.Array) -> jax.Array:
        pairs = images if image_at is None else take(images, image_at), take(texts, text_at)
        if steps == 1 or mesh is None:
            return score(pairs, key)
        found: jax.Array = batch_parts.map_in_parts(
            lambda part, number: score(part, jax.random.fold_in(key, number)),
            pairs, steps=steps, mesh=mesh,
        )  # fmt: skip
        return found

    return compute
