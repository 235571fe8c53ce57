"""Rerankers: complete rows of scores and predictions -> the rows to rank by.

`RERANKERS` maps names to functions of (scores [B, N], probabilities [B, N, C], **options) that
return [B, N]; `config.evals.NAME.reranker = {"name": ..., **options}` picks one. An evaluator of
boards also knows "pair_scorer" and "similarity", see `second_stage`.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np

from xmodal.core.config import Bounds, check_options, lookup, read
from xmodal.evals.scores.saved_scores import SavedScores
from xmodal.evals.scores.score_tiles import Scores, complete_rows
from xmodal.evals.scores.second_stage import PairReranker, SimilarityReranker
from xmodal.evals.scores.sources import Predictions
from xmodal.similarity.precision import in_precision

_PREDICTIONS_AT_A_TIME = 1 << 26  # Of some queries with the whole gallery.


def rerank(
    scores: Scores,
    predictions: Predictions,
    reranker: Callable[[jax.Array, jax.Array], jax.Array],
    *,
    transposed: bool = False,
) -> SavedScores:
    """Returns the reranked scores of all queries, on the host.

    Args:
      scores: scores of N images and M captions.
      predictions: predictions for the same items.
      reranker: complete rows of scores [B, ...] and probabilities [B, ..., C] -> rows [B, ...].
      transposed: whether captions are the queries.
    """
    scores = scores.transpose() if transposed else scores
    (queries, items), rows = scores.shape, scores.tile_shape[0]
    result = np.empty(scores.shape, scores.dtype)
    apply = jax.jit(reranker)
    width = max(1, predictions.rows(np.zeros(1, int), transposed=transposed).shape[-1])
    step = max(1, min(rows, _PREDICTIONS_AT_A_TIME // (items * width)))
    for start in range(0, queries, rows):
        block = complete_rows(scores, start // rows)
        for first in range(start, min(start + rows, queries), step):
            # The last query of the tile is repeated as padding, so that one shape is compiled.
            at = np.minimum(np.arange(first, first + step), min(start + rows, queries) - 1)
            predicted = predictions.rows(at, transposed=transposed)
            with in_precision(scores.dtype):  # Float32 would tie what float64 ranks.
                result[at] = np.asarray(apply(block[at - start], predicted))
    return SavedScores(result)


def refine_selectively(
    scores: jax.Array,
    predicted: jax.Array,
    *,
    strength: Annotated[float, Bounds(at_least=0)],
    gap: Annotated[float, Bounds(at_least=0)],
) -> jax.Array:
    """Returns rows in which uncertain queries favor items with confident predictions.

    Selective similarity refinement of Alikhani et al. 2022 (CMCM), section 3.4: if the best two
    scores of a query are less than `gap` apart, each of its scores is multiplied by the sum over
    relations of exp(strength |p - 0.5|), where p is the predicted probability.

    Args:
      scores: float32 [B, N].
      predicted: probabilities, float32 [B, N, C].
      strength: lambda of the paper, 0.13 for CITE++ and 0.12 for Clue.
      gap: T of the paper; 0.05 in the authors' code.
    """
    confidence = jnp.abs(predicted - 0.5)
    refined = scores * jnp.sum(jnp.exp(strength * confidence), axis=-1)
    if scores.shape[1] < 2:
        return scores
    best = jax.lax.top_k(scores, 2)[0]
    return jnp.where(best[:, :1] - best[:, 1:] < gap, refined, scores)


RowReranker = Callable[[jax.Array, jax.Array], jax.Array]

RERANKERS: dict[str, Callable[..., jax.Array]] = {"selective_refinement": refine_selectively}
_SECOND_STAGES: dict[str, type[PairReranker]] = {
    "pair_scorer": PairReranker,
    "similarity": SimilarityReranker,
}


def make_reranker(where: str, options: Mapping[str, Any] | None) -> RowReranker | None:
    """Returns the reranker that `{"name": ..., **options}` describes; None for None.

    Raises:
      UserError: an unknown name or option in the section `where`.
    """
    if options is None:
        return None
    given = dict(options)
    function = lookup(f"{where}.name", given.pop("name", ""), RERANKERS)
    check_options(where, function, given)
    return functools.partial(function, **given)


def make_board_reranker(
    where: str, options: Mapping[str, Any] | None
) -> RowReranker | PairReranker | None:
    """Returns what `make_reranker` does, or a `PairReranker` for a second stage.

    Raises:
      UserError: an unknown name or option in the section `where`, or no file of a first stage.
    """
    if options is None:
        return None
    lookup(f"{where}.name", options.get("name", ""), {**RERANKERS, **_SECOND_STAGES})
    if options["name"] not in _SECOND_STAGES:
        return make_reranker(where, options)
    given = {key: x for key, x in options.items() if key != "name"}
    found = read(_SECOND_STAGES[options["name"]], where, given)
    found.check(where)
    return found
