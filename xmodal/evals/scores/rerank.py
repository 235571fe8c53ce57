"""Rerankers: complete rows of scores and predictions -> the rows to rank by.

`RERANKERS` maps names to functions of (scores [B, N], probabilities [B, N, C], **options) that
return [B, N]; `config.evals.NAME.reranker = {"name": ..., **options}` picks one. An evaluator of
benchmarks also knows "cross_encoder", see `second_stage`.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np

from xmodal.core.config import Bounds, check_options, lookup, read
from xmodal.evals.scores.score_rows import Scores
from xmodal.evals.scores.second_stage import PairReranker
from xmodal.evals.scores.sources import Predictions
from xmodal.similarity.vectors import in_precision

_PREDICTIONS_AT_A_TIME = 1 << 26  # Of some queries with the whole gallery.


class RerankedScores(Scores):
    """Scores of queries whose complete rows a function changes."""

    def __init__(
        self,
        scores: Scores,
        predictions: Predictions,
        reranker: "RowReranker",
        *,
        transposed: bool = False,
    ) -> None:
        """Takes scores and predictions of the same N images and M captions.

        `transposed`: whether captions are the queries.
        """
        self._scores = scores.transpose() if transposed else scores
        self._predictions, self._transposed = predictions, transposed
        self._apply = jax.jit(reranker)
        self.shape, self.dtype = self._scores.shape, self._scores.dtype

    @property
    def height(self) -> int:
        """See `Scores`."""
        width = self._predict(np.zeros(1, int)).shape[-1]
        return max(1, min(super().height, _PREDICTIONS_AT_A_TIME // (self.shape[1] * width)))

    def rows(self, queries: np.ndarray) -> np.ndarray:
        """See `Scores`."""
        # The last query is repeated, so that one shape is compiled.
        size = max(len(queries), min(self.height, self.shape[0]))
        at = np.minimum(np.arange(size), len(queries) - 1)
        rows = self._scores.rows(queries)[at]
        with in_precision(self.dtype):  # Float32 would tie what float64 ranks.
            return np.asarray(self._apply(rows, self._predict(queries[at])))[: len(queries)]

    def _predict(self, queries: np.ndarray) -> jax.Array:
        return self._predictions.rows(queries, transposed=self._transposed)


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
_CROSS_ENCODER = "cross_encoder"


def make_reranker(
    where: str, options: Mapping[str, Any] | None, also: Sequence[str] = ()
) -> RowReranker | None:
    """Returns the reranker that `{"name": ..., **options}` describes; None for None.

    `also`: other names, for the message.

    Raises:
      UserError: an unknown name or option in the section `where`.
    """
    if options is None:
        return None
    given = dict(options)
    known: dict[str, Any] = {**dict.fromkeys(also), **RERANKERS}
    function = lookup(f"{where}.name", given.pop("name", ""), known)
    check_options(where, function, given)
    return functools.partial(function, **given)


def make_benchmark_reranker(
    where: str, options: Mapping[str, Any] | None
) -> RowReranker | PairReranker | None:
    """Returns what `make_reranker` does, or a `PairReranker` for a second stage.

    Raises:
      UserError: an unknown name or option in the section `where`, or no file of a first stage.
    """
    given = dict(options or {})
    if given.get("name") != _CROSS_ENCODER:
        return make_reranker(where, options, also=(_CROSS_ENCODER,))
    del given["name"]
    found = read(PairReranker, where, given)
    found.check(where)
    return found
