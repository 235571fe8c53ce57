"""Hits of a query, and their order by a cross-encoder."""

import dataclasses
import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from xmodal.api.model import Model
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


def rank_pairs(
    model: Model,
    query: Any,
    kind: str,
    hits: Sequence[Hit],
    *,
    first_stage_weight: float | None = None,
    upright: bool = True,
) -> list[Hit]:
    """Returns hits with the scores of the model's cross-encoder, as in evaluation, best first.

    The query is encoded once; pictures are read from their files.

    Args:
      model: a model with a cross-encoder.
      query: the query, an image or a text.
      kind: its kind, "image" or "caption".
      hits: items of the other kind.
      first_stage_weight: of the similarity in the score, see `PairReranker`; None for that of the
        evaluators of the model's run.
      upright: see `Model.embed_images`, of the query or of the hits.

    Raises:
      UserError: the model has no cross-encoder, its run does not determine the score, a picture is
        not a file that can be read, or a score is not finite.
    """
    if model.pairs is None:
        raise UserError(f"{model.name} has no cross-encoder; search without rerank.")
    weight = model.first_stage_weight if first_stage_weight is None else first_stage_weight
    if weight is None or not 0 <= weight < math.inf:
        raise UserError(
            f"first_stage_weight is {weight}, and the evaluators of {model.name} do not determine "
            "it: choose 1, which adds the score of the first stage, as BLIP's authors do, another "
            "weight, or 0."
        )
    items, queries = [hit.item for hit in hits], [query] * len(hits)
    if kind == "caption" and (missing := [path for path in items if not os.path.exists(path)]):
        raise UserError(
            f"{missing[0]} is not a picture in a file, which a cross-encoder has to read again; "
            "build the index from files, or leave rerank out."
        )
    pairs = (queries, items) if kind == "image" else (items, queries)
    scores, definition = model.score_pairs(*pairs, upright=upright), model.pairs.definition
    if weight:
        scores = scores + weight * np.array([hit.score for hit in hits], np.float32)
        definition = name_sum(definition, weight, model.similarity_name)
    if bad := count_not_finite(scores):
        raise UserError(f"{bad:,} scores of {model.name} are not finite: the model diverged.")
    return [
        dataclasses.replace(hits[at], rank=rank, score=float(scores[at]), definition=definition)
        for rank, at in enumerate(np.argsort(-scores, kind="stable"), start=1)
    ]
