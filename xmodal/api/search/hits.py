"""Hits of a query, and their order by a cross-encoder."""

import dataclasses
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from xmodal.api.model import Model
from xmodal.api.search.gallery import IndexGallery
from xmodal.core.errors import UserError
from xmodal.evals.scores.score_rows import count_not_finite
from xmodal.evals.scores.second_stage import name_sum


@dataclasses.dataclass(frozen=True)
class Hit:
    """An item that was found.

    Attributes:
      rank: rank, starting at 1.
      row: its position in the index.
      item: path, caption, or image of a dataset.
      score: larger is more similar.
      definition: names the score: the model's similarity, or the score of its cross-encoder, such
        as "logit of cross_attention + cosine".
    """

    rank: int
    row: int
    item: str
    score: float
    definition: str = ""


def _files(hits: Sequence[Hit]) -> list[str]:
    """Paths of pictures, which a cross-encoder reads again."""
    paths = [hit.item for hit in hits]
    if missing := [path for path in paths if not os.path.exists(path)]:
        raise UserError(
            f"{missing[0]} is not a picture in a file, which a cross-encoder has to read again; "
            "build the index from files, or leave rerank out."
        )
    return paths


def _holds(gallery: IndexGallery, hit: Hit) -> bool:
    return hit.row < len(gallery.names) and gallery.names[hit.row] == hit.item


def rank_pairs(
    model: Model,
    galleries: Mapping[str, IndexGallery],
    query: Any,
    kind: str,
    hits: Sequence[Hit],
    *,
    first_stage_weight: float | None = None,
    upright: bool = True,
    pictures: Callable[[Sequence[Hit]], Sequence[Any]] = _files,
) -> list[Hit]:
    """Returns hits with the scores of the model's cross-encoder, as in evaluation, best first.

    The query is encoded once.

    Args:
      model: a model with a cross-encoder.
      galleries: those of the index.
      query: the query, an image or a text.
      kind: its kind, "image" or "caption".
      hits: items of the other kind.
      first_stage_weight: of the similarity in the score, see `PairReranker`; None for that of the
        evaluators of the model's run.
      upright: see `Model.embed_images`, of the query or of the hits.
      pictures: returns the images of hits; by default their files.

    Raises:
      UserError: the model has no cross-encoder, or its run does not determine the score, the hits
        are of the same kind, a picture is not a file that can be read, or a score is not finite.
    """
    if model.pairs is None:
        raise UserError(f"{model.name} has no cross-encoder; search without rerank.")
    weight = model.first_stage_weight if first_stage_weight is None else first_stage_weight
    if weight is None:
        raise UserError(
            f"The evaluators of {model.name} do not determine the score of its cross-encoder: "
            "choose first_stage_weight=1, which adds the score of the first stage, as BLIP's "
            "authors do, another weight, or 0."
        )
    if not 0 <= weight < math.inf:
        raise UserError(f"first_stage_weight={weight} must be a number of at least 0.")
    other = "caption" if kind == "image" else "image"
    gallery = galleries.get(other)
    if gallery is None or not all(_holds(gallery, hit) for hit in hits):
        raise UserError(f"A cross-encoder compares images with texts; use find={other!r}.")
    queries = [query] * len(hits)
    pairs = (pictures(hits), queries) if other == "image" else (queries, [hit.item for hit in hits])
    scores, definition = model.score_pairs(*pairs, upright=upright), model.pairs.definition
    if weight:
        scores = scores + weight * np.array([hit.score for hit in hits], np.float32)
        definition = name_sum(definition, weight, model.similarity_name)
    if bad := count_not_finite(scores):
        raise UserError(f"{bad:,} scores of {model.name} are not finite: the model diverged.")
    ordered = sorted(zip(-scores, hits, strict=True), key=lambda pair: (pair[0], pair[1].rank))
    return [
        dataclasses.replace(hit, rank=rank, score=-float(score), definition=definition)
        for rank, (score, hit) in enumerate(ordered, start=1)
    ]
