"""The tables of similarities: of vectors, and of token sets."""

import dataclasses
from collections.abc import Callable, Mapping

import jax

from xmodal.similarity import scores, vectors
from xmodal.similarity.late_interaction import LateInteraction
from xmodal.similarity.saf import Saf
from xmodal.similarity.scan import Scan
from xmodal.similarity.sgr import Sgr
from xmodal.similarity.vectors import Prepared


@dataclasses.dataclass(frozen=True)
class Kind:
    """A row of the table: how two embeddings are compared.

    Attributes:
      prepare: (name for errors, embeddings [N, D] or [N, K, D]) -> float32 arrays, N first.
      score: (prepared queries, prepared gallery, **parameters) -> float32 [B, M], for ranking.
      logits: the same for losses: differentiable.
      inner_product: whether the score is the inner product of prepared vectors [N, D].
      symmetric: whether exchanging the sides transposes the scores.
      by_distance: whether the score depends only on distances, computed from squared lengths, which
        a large common offset would hide, see `vectors.find_offset`.
      unit: whether vectors are scaled to unit length.
      parameters: numbers learned with the model that ranking needs too, with their start.
    """

    prepare: Callable[[str, jax.Array], Prepared]
    score: Callable[..., jax.Array]
    logits: Callable[..., jax.Array]
    inner_product: bool = False
    symmetric: bool = True
    by_distance: bool = False
    unit: bool = False
    parameters: Mapping[str, float] = dataclasses.field(default_factory=dict)


SIMILARITIES: dict[str, Kind] = {
    "dot": Kind(
        prepare=vectors.one_vector,
        score=scores.score_products,
        logits=scores.products,
        inner_product=True,
    ),
    "cosine": Kind(
        prepare=lambda name, x: vectors.unit_length(vectors.one_vector(name, x)),
        score=scores.score_products,
        logits=scores.products,
        inner_product=True,
        unit=True,
    ),
    "euclidean": Kind(
        prepare=lambda name, x: vectors.with_squares(vectors.one_vector(name, x)),
        score=scores.score_euclidean,
        logits=scores.euclidean,
        by_distance=True,
    ),
    "order": Kind(
        prepare=vectors.one_vector,
        score=scores.score_order,
        logits=scores.order,
        symmetric=False,
    ),
    "max_cosine": Kind(
        prepare=lambda name, x: vectors.unit_length(vectors.several_vectors(x)),
        score=scores.score_max_products,
        logits=scores.max_products,
        unit=True,
    ),
    "match_probability": Kind(
        prepare=lambda name, x: vectors.with_squares(vectors.several_vectors(x)),
        score=scores.score_match_log_odds,
        logits=scores.match_log_odds,
        by_distance=True,
        parameters={"match_scale": 15.0, "match_shift": 15.0},
    ),
}

LATE_INTERACTIONS: dict[str, type[LateInteraction]] = {"saf": Saf, "scan": Scan, "sgr": Sgr}
"""Similarities of token sets, see `LateInteraction`."""
