"""Rerankers: rank the items of a first stage again, by predictions or by the scores of pairs.

`config.evals.NAME.reranker = {"name": ..., **options}` picks one. "cross_encoder" scores the pairs
of a query with its best items, see `PairReranker`. The others are functions of complete rows:
(scores [B, N], probabilities [B, N, C]) -> [B, N].
"""

import copy
import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xmodal.core.config import read_named, setting
from xmodal.core.errors import UserError
from xmodal.evals.labels.types import DirectionLabels
from xmodal.evals.reports.results import Rescored
from xmodal.evals.scores.pair_scores import PairScores
from xmodal.evals.scores.score_rows import GROUP, Scores, top_items
from xmodal.evals.scores.sources import Embeddings, Predictions, Source
from xmodal.similarity.vectors import in_precision

_PREDICTIONS_AT_A_TIME = 1 << 26  # Pairs of some queries with the whole gallery.
_PAIRS_AT_A_TIME = 1 << 22  # Looked up among positives.


@dataclasses.dataclass(frozen=True)
class PairReranker:
    """The reranker "cross_encoder": the model's cross-encoder ranks the best items of its towers.

    Attributes:
      top: K, items per query and direction that are scored; None for all.
      first_stage_weight: multiplies the towers' score, without temperature, which is added to the
        score of a pair; 1 in BLIP, which adds the cosine to its logit. A scorer that learned from
        negatives drawn by exp(cosine / t), see `losses.matching`, approximates the log-odds less
        cosine / t; the weight 1 / t adds it again.
      first_stage: file of another model's embeddings of the same items, with their similarity,
        whose best items are ranked; "" for the towers of the model itself.
    """

    top: int | None = setting(None, at_least=1)
    first_stage_weight: float = setting(0.0, at_least=0)
    first_stage: str = ""


@dataclasses.dataclass(frozen=True)
class SelectiveRefinement:
    """The reranker "selective_refinement": uncertain queries favor confidently predicted items.

    Selective similarity refinement of Alikhani et al. 2022 (CMCM), section 3.4: if the best two
    scores of a query are less than `gap` apart, each of its scores is multiplied by the sum over
    relations of exp(strength |p - 0.5|), where p is the predicted probability.

    Attributes:
      strength: lambda of the paper, 0.13 for CITE++ and 0.12 for Clue.
      gap: T of the paper; 0.05 in the authors' code.
    """

    strength: float = setting(at_least=0)
    gap: float = setting(at_least=0)

    def __call__(self, scores: jax.Array, predicted: jax.Array) -> jax.Array:
        """Returns the scores to rank by, float32 [B, N].

        Args:
          scores: float32 [B, N].
          predicted: probabilities, float32 [B, N, C].
        """
        if scores.shape[1] < 2:
            return scores
        confidence = jnp.abs(predicted - 0.5)
        refined = scores * jnp.sum(jnp.exp(self.strength * confidence), axis=-1)
        best = jax.lax.top_k(scores, 2)[0]
        return jnp.where(best[:, :1] - best[:, 1:] < self.gap, refined, scores)


RowReranker = Callable[[jax.Array, jax.Array], jax.Array]

RERANKERS: dict[str, Callable[..., Any]] = {
    "selective_refinement": SelectiveRefinement,
    "cross_encoder": PairReranker,
}


def make_reranker(where: str, options: Mapping[str, Any] | None, *, of_rows: bool = False) -> Any:
    """Returns the row of `RERANKERS` that `{"name": ..., **options}` describes; None for None.

    `of_rows`: whether only functions of rows are allowed.
    """
    known: Any = {n: x for n, x in RERANKERS.items() if not of_rows or x is not PairReranker}
    return None if options is None else read_named(where, options, known, lambda row: row)[1]


def predictions_of(source: Source, task: str) -> Predictions:
    """Returns what a task predicts for the pairs of a source."""
    known = source.predictions if isinstance(source, Embeddings) else {}
    if task not in known:
        raise UserError(
            f"{source.place} has no predictions of task {task!r}; name one of {sorted(known)}."
        )
    return known[task]


class RerankedScores(Scores):
    """Scores of queries whose complete rows a function changes; ratings use the original ones."""

    def __init__(self, scores: Scores, predictions: Predictions, reranker: RowReranker) -> None:
        """Takes scores and predictions of the same N images and M captions."""
        self._scores, self._predictions, self._reranker = scores, predictions, reranker
        self._apply = jax.jit(reranker)
        self.shape, self.dtype = scores.shape, scores.dtype

    def transpose(self) -> "RerankedScores":
        """See `Scores`."""
        turned = self._scores.transpose(), self._predictions.transpose()
        return RerankedScores(*turned, self._reranker)

    @property
    def height(self) -> int:
        """See `Scores`."""
        width = self._predictions.rows(np.zeros(1, int)).shape[-1]
        return max(1, min(super().height, _PREDICTIONS_AT_A_TIME // (self.shape[1] * width)))

    def rows(self, queries: np.ndarray) -> np.ndarray:
        """See `Scores`."""
        # The last query is repeated, so that one shape is compiled.
        size = max(len(queries), min(self.height, self.shape[0]))
        at = np.minimum(np.arange(size), len(queries) - 1)
        rows = self._scores.rows(queries)[at]
        with in_precision(self.dtype):  # Float32 would tie what float64 ranks.
            return np.asarray(self._apply(rows, self._predictions.rows(queries[at])))[
                : len(queries)
            ]

    def rated_scores(self, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        """See `Scores`."""
        return self._scores.pairs(queries, items)


class TwoStages(Scores):
    """Numbers that rank by two keys: scored pairs by their score, then the others.

    The others have the order of a first stage: each gets an integer below all scores of its query,
    equal for equal scores of the first stage. Pairs are scored when they are needed.

    Attributes:
      definition: names the scores of pairs.
      scores_all: whether all pairs are scored, in both directions.
    """

    def __init__(
        self,
        first: Scores,
        first_name: str,
        pairs: PairScores | None,
        options: PairReranker,
        place: str,
    ) -> None:
        """Takes the scores of the first stage and their name, and the scores of pairs.

        Without a first stage, its scores are equal and its name is "": all pairs are scored.
        """
        weight, top = options.first_stage_weight, options.top
        if pairs is None:
            raise UserError(
                f"The reranker 'cross_encoder' needs a model with a cross-encoder, and {place} has "
                "none: evaluate a run with config.model.cross_encoder, or remove the reranker."
            )
        if not first_name and (top is not None or weight):
            raise UserError(
                f"The reranker 'cross_encoder' has top={top} and first_stage_weight={weight}, but "
                f"{place} has no embeddings for its first stage: remove both, so that all pairs "
                "are scored, or name another model's embeddings in first_stage."
            )
        self._first, self._first_name, self._pairs = first, first_name, pairs
        self._weight, self._top, self._is_transposed = weight, top, False
        factor = "" if weight == 1 else f"{weight:g} "
        self.definition = pairs.definition + (f" + {factor}{first_name}" if weight else "")
        self.scores_all = top is None or top >= max(first.shape)
        self.shape, self.dtype = first.shape, first.dtype if weight else np.dtype(np.float32)

    def transpose(self) -> "TwoStages":
        """See `Scores`."""
        turned = copy.copy(self)
        turned._first, turned.shape = self._first.transpose(), self.shape[::-1]
        turned._is_transposed = not self._is_transposed
        vars(turned).pop("_best", None)
        return turned

    def candidates(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns positions int [Q, K] of every query's scored items, and their scores [Q, K]."""
        return self._best[0], self._score(np.arange(self.shape[0]))

    def rows(self, queries: np.ndarray) -> np.ndarray:
        """See `Scores`."""
        found, best = np.empty((len(queries), self.shape[1]), self.dtype), self._best[0]
        scores = self._score(queries)
        if best.shape[1] < self.shape[1]:
            first = self._first.rows(queries)
            for start in range(0, len(queries), GROUP):
                some = slice(start, start + GROUP)
                lowest = np.floor(scores[some].min(axis=1, keepdims=True))
                found[some] = lowest - self.shape[1] + _count_smaller(first[some])
        np.put_along_axis(found, best[queries], scores, axis=1)
        return found

    def blocks(self, queries: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """See `Scores`; all pairs are scored together."""
        self._score(queries)
        return super().blocks(queries)

    def rated_scores(self, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        """See `Scores`; the scores of exactly these pairs."""
        found = self._score_pairs(queries, items)
        return found + self._weight * self._first.pairs(queries, items) if self._weight else found

    def find_scored(self, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        """See `Scores`."""
        return np.any(self._best[0][queries] == items[:, None], axis=1)

    def rounding(self, queries: np.ndarray) -> np.ndarray | None:
        """See `Scores`; a network's scores are rounded at least to their own precision."""
        if self.dtype == np.float64:
            return None
        return np.finfo(np.float32).eps * np.abs(self._score(queries)).max(axis=1)

    def describe(self, labels: DirectionLabels) -> Rescored:
        """See `Scores`."""
        names = self.definition, self._first_name
        return describe_candidates(self._best[0], labels, self.shape[1], *names)

    def _score(self, queries: np.ndarray) -> np.ndarray:
        """The scores of the candidates of queries, [q, K]."""
        best, first = self._best
        ends = np.repeat(queries, best.shape[1]), best[queries].ravel()
        found = self._score_pairs(*ends).reshape(len(queries), -1)
        return found + self._weight * first[queries] if self._weight else found

    def _score_pairs(self, *ends: np.ndarray) -> np.ndarray:
        return self._pairs.pairs(*(ends[::-1] if self._is_transposed else ends))

    @functools.cached_property
    def _best(self) -> tuple[np.ndarray, np.ndarray]:
        """The best items of every query in the first stage, int [Q, K]; if K is all, by position.

        And their scores there, [Q, K]; [Q, 0] if these serve nothing.
        """
        queries, items = self.shape
        top = min(self._top or items, items)
        every = np.broadcast_to(np.arange(items, dtype=np.int32), self.shape)
        if top == items and not self._weight:
            return every, np.empty((queries, 0), self.dtype)
        found, scores = np.empty((queries, top), np.int32), np.empty((queries, top), self.dtype)
        for at, rows in self._first.blocks(np.arange(queries)):
            found[at] = top_items(rows, top) if top < items else every[at]
            scores[at] = np.take_along_axis(rows, found[at], axis=1)
        return found, scores


def _count_smaller(rows: np.ndarray) -> np.ndarray:
    """Returns how many different smaller scores are in the row of each score, int [q, N]."""
    order = np.argsort(rows, axis=1)  # Faster than SciPy's `rankdata`.
    rising, number = np.take_along_axis(rows, order, axis=1), np.zeros(rows.shape, np.int64)
    np.cumsum(rising[:, 1:] > rising[:, :-1], axis=1, out=number[:, 1:])
    found = np.empty_like(number)
    np.put_along_axis(found, order, number, axis=1)
    return found


def describe_candidates(
    candidates: np.ndarray,
    labels: DirectionLabels,
    gallery: int,
    definition: str,
    first_name: str = "",
    given: str = "",
) -> Rescored:
    """Returns the facts of a direction whose candidates were scored.

    Args:
      candidates: int [Q, K], positions; -1 for none.
      labels: labels of the direction.
      gallery: number N of items.
      definition: names the scores.
      first_name: name of the scores that rank the other items; "" if they are not ranked.
      given: hash of candidates from a file; "" for chosen ones.
    """
    queries, top = candidates.shape
    if top == gallery:
        without = "" if first_name else ", without a first stage"
        return Rescored("all items", f"ranked by {definition}{without}: all pairs are scored")
    total = np.sum([relation.lengths for relation in labels.relations], axis=0)
    inside = np.zeros(queries, int)
    for rows in np.array_split(np.arange(queries), -(-candidates.size // _PAIRS_AT_A_TIME)):
        for relation in labels.relations:
            inside[rows] += np.sum(relation.contains(rows[:, None], candidates[rows]), axis=1)
    names, others = f"the top {top:,} of {first_name}", "other items follow in its order"
    if given:
        names, others = f"{top:,} given candidates (sha256 {given})", "other items are not ranked"
    return Rescored(
        names,
        f"ranked by {definition} among {names}, which lack {np.sum(total - inside):,} of "
        f"{np.sum(total):,} positives, and all positives of "
        f"{np.sum((total > 0) & (inside == 0)):,} of {np.sum(total > 0):,} queries; {others}",
    )
