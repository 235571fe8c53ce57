"""Hits of a query, and their order by a pair scorer."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

from xmodal.api.model import Model
from xmodal.api.search.gallery import IndexGallery
from xmodal.base.config import UserError


@dataclasses.dataclass(frozen=True)
class Hit:
    """An item that was found.

    Attributes:
      rank: rank, starting at 1.
      row: its position in the index.
      item: path, caption, or position in a dataset.
      score: score by the model's similarity, or by its pair scorer; larger is more similar.
    """

    rank: int
    row: int
    item: str
    score: float


def rank_pairs(
    model: Model,
    galleries: Mapping[str, IndexGallery],
    query: Any,
    kind: str,
    hits: Sequence[Hit],
) -> list[Hit]:
    """Returns hits with the scores of the model's pair scorer, best first.

    Args:
      model: a model with a pair scorer.
      galleries: those of the index.
      query: the query, an image or a text.
      kind: its kind, "image" or "caption".
      hits: items of the other kind.

    Raises:
      UserError: the model has no pair scorer, the hits are of the same kind, or a picture is not a
        file that can be read.
    """
    other = "caption" if kind == "image" else "image"
    gallery = galleries.get(other)
    if gallery is None or any(gallery.names[hit.row] != hit.item for hit in hits):
        raise UserError(f"A pair scorer compares images with texts; use find={other!r}.")
    items = [hit.item for hit in hits]
    if other == "image" and (missing := [item for item in items if not os.path.exists(item)]):
        raise UserError(
            f"{missing[0]} is not a picture in a file, which a pair scorer has to read again; "
            "build the index from files, or leave rerank out."
        )
    queries = [query] * len(items)
    images, texts = (items, queries) if other == "image" else (queries, items)
    scores = model.score_pairs(images, texts)
    ordered = sorted(zip(-scores, hits, strict=True), key=lambda pair: (pair[0], pair[1].rank))
    return [
        dataclasses.replace(hit, rank=rank, score=-float(score))
        for rank, (score, hit) in enumerate(ordered, start=1)
    ]
