"""What a model computes besides embeddings: scores of pairs and of tokens, and attention."""

import math
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from xmodal.api.item_embeddings import tokens_of
from xmodal.core.errors import UserError
from xmodal.data.given_items import GivenItems
from xmodal.evals.scores.score_blocks import HostItems, compute_score_matrix
from xmodal.evals.scores.sources import Embeddings
from xmodal.similarity import Embedding, Similarity

# Pairs scored together; memory grows with its square, and large squares are kept in files.
_BLOCK = 1024


def score_given_pairs(
    embed: Callable[[GivenItems], Embeddings],
    images: Sequence[Any],
    texts: Sequence[str],
    **given: Any,
) -> np.ndarray:
    """Returns the score of image i with text i, float32 [N].

    An item of several pairs is encoded once per 1,024 pairs.

    Args:
      embed: embeds items and returns the scores of their pairs.
      images: N images, as `GivenItems` takes them.
      texts: N texts.
      **given: other arguments of `GivenItems`.
    """
    scores = np.empty(len(texts), np.float32)
    for start in range(0, len(texts), _BLOCK):
        block = slice(start, start + _BLOCK)
        (pictures, rows), (strings, columns) = _distinct(images[block]), _distinct(texts[block])
        pairs = embed(GivenItems(images=pictures, texts=strings, **given)).pairs
        assert pairs is not None
        scores[block] = pairs.pairs(rows, columns)
    return scores


def _distinct(items: Sequence[Any]) -> tuple[list[Any], np.ndarray]:
    """The items without repetitions, and the place of each among them, int [N].

    Paths, contents of files and texts are compared; of others, the same object is one item.
    """
    own = list(items)
    keys = [each if isinstance(each, str | bytes | os.PathLike) else id(each) for each in own]
    found = dict(zip(keys, own, strict=True))
    places = {key: place for place, key in enumerate(found)}
    return list(found.values()), np.array([places[key] for key in keys])


def compare_tokens(
    similarity: Similarity, parameters: Any, left: Any, right: Any, mesh: Mesh
) -> np.ndarray:
    """Returns the scores [N, M] of images with texts, or of texts with images.

    Args:
      similarity: a similarity with a module.
      parameters: its parameters.
      left: N items, `ItemEmbeddings` with tokens and a modality.
      right: M items of the other modality.
      mesh: devices that share the work.
    """
    items = [HostItems(np.asarray(each), tokens_of(each)) for each in (left, right)]
    if {left.modality, right.modality} != {"image", "text"}:
        raise UserError(
            f"Similarity {similarity.name!r} compares an image with a text, not the modalities "
            f"{[left.modality, right.modality]}: pass what embed_images and embed_texts return."
        )
    flips = left.modality == "text"
    with tempfile.TemporaryDirectory() as folder:
        scores = compute_score_matrix(
            similarity, parameters, *(items[::-1] if flips else items), mesh=mesh, folder=folder
        )
        return np.array(scores.T if flips else scores)


def compute_weights(
    model: Any,
    name: str,
    longest: int,
    modality: str,
    params: Any,
    model_state: Any,
    columns: Mapping[str, jax.Array],
) -> Embedding:
    """Returns the weights of the items of a batch in the model's attention as their vectors.

    Args:
      model: a `models.DualEncoder` or a bundle; the image tower of a bundle has no weights.
      name: name of the model in messages.
      longest: `max_length` of its texts.
      modality: "image" or "text".
      params: see `models.DualEncoder.embed`.
      model_state: see `models.DualEncoder.embed`.
      columns: columns of the batch.

    Returns:
      Embeddings whose `vector` is [N, max_length] for texts, and [N, G * G] for images.
    """
    given, weights = (modality, params, model_state, columns), None
    if modality == "text":
        weights = model.embed(*given)[0].extras.get("attention")
    elif hasattr(model, "attend") and columns["image"].dtype == jnp.uint8:
        weights = model.attend(*given)
    if weights is None or weights.ndim != 2:
        raise UserError(
            f"The {modality} tower of {name} has no weights for words or patches. Words have "
            "them with the head 'attention'; patches of a picture, outside a bundle, in a ViT "
            "with the head 'cls', or with 'multihead_attention_pool', 'attention_pool' or "
            "'attention'."
        )
    if modality == "text":  # Batches of short texts are shorter.
        return Embedding(jnp.pad(weights, ((0, 0), (0, longest - weights.shape[1]))))
    # A class token, or the mean of all cells, may come first.
    cells = weights[:, weights.shape[1] - math.isqrt(weights.shape[1]) ** 2 :]
    return Embedding(cells / jnp.sum(cells, axis=1, keepdims=True))
