"""Embeds the items and the queries of an index."""

from typing import Any

import numpy as np

from xmodal.api.item_embeddings import ItemEmbeddings
from xmodal.api.model import Model
from xmodal.core.errors import UserError
from xmodal.evals.scores.score_rows import count_not_finite


def check_queries(vectors: np.ndarray, items: tuple[int, ...]) -> None:
    """Raises an error if queries cannot be compared with items of some shape.

    Raises:
      UserError: names both shapes.
    """
    if vectors.ndim != len(items) or vectors.shape[-1] != items[-1]:
        raise UserError(
            f"Queries of shape {list(vectors.shape)} cannot be compared with items of shape "
            f"{list(items)}: embed them with the model of the index."
        )
    _check_finite(vectors, "query")


def _check_finite(vectors: np.ndarray, what: str) -> None:
    """Raises an error for NaN, which would be found first."""
    if bad := count_not_finite(vectors):
        raise UserError(
            f"{bad:,} of {len(vectors):,} {what} embeddings are not finite: the model diverged."
        )


def embed(
    model: Model,
    kind: str,
    items: Any,
    *,
    upright: bool = True,
    unreadable: dict[int, str] | None = None,
) -> np.ndarray | ItemEmbeddings:
    """Returns the embeddings of images or captions, float32 [n, D] or [n, K, D].

    They are `ItemEmbeddings` if the model compares tokens.

    See `Model.embed_images` for `upright` and `unreadable`.

    Raises:
      UserError: an item cannot be embedded, or its embedding is not finite.
    """
    found: np.ndarray | ItemEmbeddings
    if kind == "image":
        found = model.embed_images(items, upright=upright, unreadable=unreadable)
    else:
        found = model.embed_texts(items)
    vectors = np.asarray(found)
    _check_finite(vectors, kind)
    return vectors if getattr(found, "tokens", None) is None else found
