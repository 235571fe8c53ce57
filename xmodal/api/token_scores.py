"""Scores of embeddings whose tokens are compared."""

import tempfile
from typing import Any

import numpy as np
from jax.sharding import Mesh

from xmodal.api.item_embeddings import tokens_of
from xmodal.core.errors import UserError
from xmodal.evals.scores.score_blocks import HostItems, compute_score_matrix
from xmodal.similarity import Similarity


def compare_tokens(
    similarity: Similarity, parameters: Any, left: Any, right: Any, mesh: Mesh
) -> np.ndarray:
    """Returns the scores [N, M] of images with texts, or of texts with images.

    Args:
      similarity: a similarity with a module.
      parameters: its parameters.
      left: N items, `ItemEmbeddings` with tokens and a side.
      right: M items of the other side.
      mesh: devices that share the work.

    Raises:
      UserError: the items have no tokens, or are of one side.
    """
    items = [HostItems(np.asarray(each), tokens_of(each)) for each in (left, right)]
    if {left.side, right.side} != {"image", "text"}:
        raise UserError(
            f"Similarity {similarity.name!r} compares an image with a text, not the sides "
            f"{[left.side, right.side]}: pass what embed_images and embed_texts return."
        )
    flips = left.side == "text"
    with tempfile.TemporaryDirectory() as folder:
        scores = compute_score_matrix(
            similarity, parameters, *(items[::-1] if flips else items), mesh=mesh, folder=folder
        )
        return np.array(scores.T if flips else scores)
