"""Rerankers: rank the items of a first stage again, by predictions or by the scores of pairs.

`config.evals.NAME.reranker = {"name": ..., **options}` picks one. "cross_encoder" scores the pairs
of a query with its best items, see `PairReranker`. The others are functions of complete rows:
(scores [B, N], probabilities [B, N, C], **options) -> [B, N].
"""

import dataclasses
import functools
import os
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np

from xmodal.core.config import Bounds, check_options, lookup, read, setting
from xmodal.core.errors import UserError
from xmodal.evals.labels.types import DirectionLabels
from xmodal.evals.reports.results import Rescored
from xmodal.evals.scores.pair_scores import PairScores
from xmodal.evals.scores.score_rows import GROUP, Scores, top_items
from xmodal.evals.scores.sources import Predictions
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


RowReranker = Callable[[jax.Array, jax.Array], jax.Array]


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


_CROSS_ENCODER = "cross_encoder"
RERANKERS: dict[str, Callable[..., Any]] = {
    "selective_refinement": refine_selectively,
    _CROSS_ENCODER: PairReranker,
}


def make_reranker(
    where: str, options: Mapping[str, Any] | None, *, of_rows: bool = False
) -> RowReranker | PairReranker | None:
    """Returns the reranker that `{"name": ..., **options}` describes; None for None.

    `of_rows`: whether only functions of rows are allowed.
    """
    if options is None:
        return None
    given = dict(options)
    known = {name: x for name, x in RERANKERS.items() if not of_rows or name != _CROSS_ENCODER}
    made = lookup(f"{where}.name", given.pop("name", ""), known)
    if made is not PairReranker:
        check_options(where, made, given)
        return functools.partial(made, **given)
    found = read(PairReranker, where, given)
    if found.first_stage and not os.path.isfile(found.first_stage):
        raise UserError(
            f"{where}.first_stage={found.first_stage!r} is not a file: name one of embeddings, "
            "which xmodal evaluate writes with --save_embeddings."
        )
    return found


class RerankedScores(Scores):
    """Scores of queries whose complete rows a function changes."""

    def __init__(
        self,
        scores: Scores,
        predictions: Predictions,
        reranker: RowReranker,
        *,
        transposed: bool = False,
    ) -> None:
        """Takes scores and predictions of the same N images and M captions.

        `transposed`: whether captions are the queries.
        """
        self._scores = scores.transpose() if transposed else scores
        self._predict = functools.partial(predictions.rows, transposed=transposed)
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


class JoinedScores(Scores):
    """Numbers that rank by two keys: scored pairs by their score, then the others.

    The others have the order of a first stage: each gets an integer below all scores of its query,
    equal for equal scores of the first stage.
    """

    def __init__(self, first: Scores, candidates: np.ndarray, scores: np.ndarray) -> None:
        """Takes a first stage [Q, N], and positions [Q, K] of scored items with their scores."""
        self._first, self._candidates, self._scores = first, candidates, scores
        self.shape, self.dtype = first.shape, np.result_type(np.float32, scores)

    def rows(self, queries: np.ndarray) -> np.ndarray:
        """See `Scores`."""
        found = np.empty((len(queries), self.shape[1]), self.dtype)
        if self._candidates.shape[1] < self.shape[1]:
            first = self._first.rows(queries)
            for start in range(0, len(queries), GROUP):
                some = slice(start, start + GROUP)
                lowest = np.floor(self._scores[queries[some]].min(axis=1, keepdims=True))
                found[some] = lowest - self.shape[1] + _count_smaller(first[some])
        np.put_along_axis(found, self._candidates[queries], self._scores[queries], axis=1)
        return found

    def find_scored(self, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        """See `Scores`."""
        return np.any(self._candidates[queries] == items[:, None], axis=1)

    def rounding(self, queries: np.ndarray) -> np.ndarray | None:
        """See `Scores`; a network's scores are rounded at least to their own precision."""
        if self.dtype == np.float64:
            return None
        return np.finfo(np.float32).eps * np.abs(self._scores[queries]).max(axis=1)


def _count_smaller(rows: np.ndarray) -> np.ndarray:
    """Returns how many different smaller scores are in the row of each score, int [q, N]."""
    order = np.argsort(rows, axis=1)  # Twice as fast as SciPy's `rankdata`.
    rising, number = np.take_along_axis(rows, order, axis=1), np.zeros(rows.shape, np.int64)
    np.cumsum(rising[:, 1:] > rising[:, :-1], axis=1, out=number[:, 1:])
    found = np.empty_like(number)
    np.put_along_axis(found, order, number, axis=1)
    return found


class SecondStage:
    """Scores of images and captions in both directions; pairs are scored when needed.

    Attributes:
      definition: names the scores of pairs.
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
        weight = options.first_stage_weight
        if pairs is None:
            raise UserError(
                f"The reranker 'cross_encoder' needs a model with a cross-encoder, and {place} has "
                "none: evaluate a run with config.model.cross_encoder, or remove the reranker."
            )
        if not first_name and (options.top is not None or weight):
            raise UserError(
                f"The reranker 'cross_encoder' has top={options.top} and "
                f"first_stage_weight={weight}, but {place} has no embeddings, which would be its "
                "first stage: remove both, so that all pairs are scored, or name another model's "
                "embeddings in first_stage."
            )
        self._first, self._first_name = first, first_name
        factor = "" if weight == 1 else f"{weight:g} "
        self.definition = pairs.definition + (f" + {factor}{first_name}" if weight else "")
        self._pairs, self._options, self._place = pairs, options, place
        self._found = functools.cache(self._find)

    def __call__(self, transposed: bool, asked: np.ndarray | None = None) -> JoinedScores:
        """Returns the scores to rank by, see `candidates`."""
        return JoinedScores(self._from(transposed), *self.candidates(transposed, asked))

    def pairs(self, images: np.ndarray, captions: np.ndarray) -> np.ndarray:
        """Returns the scores [P] of exactly these pairs."""
        found = self._pairs.pairs(images, captions)
        weight = self._options.first_stage_weight
        return self._add(found, self._first.pairs(images, captions) if weight else found)

    def candidates(
        self, transposed: bool, asked: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns positions int [Q, K] of every query's candidates, and their scores [Q, K].

        Args:
          transposed: whether captions are the queries.
          asked: bool [Q], queries whose candidates are scored; scores of others are 0. None for
            all.
        """
        items, first = self._found(transposed)
        rows = np.arange(len(items)) if asked is None else np.flatnonzero(asked)
        queries, chosen = np.repeat(rows, items.shape[1]), items[rows].ravel()
        found = self._pairs.pairs(*((chosen, queries) if transposed else (queries, chosen)))
        found = self._add(found.reshape(len(rows), -1), first[rows])
        scores = np.zeros(items.shape, found.dtype)
        scores[rows] = found
        return items, scores

    def describe(self, labels: DirectionLabels, transposed: bool) -> Rescored:
        """Returns the facts of a direction's second stage."""
        candidates, gallery = self._found(transposed)[0], self._from(transposed).shape[1]
        return describe_candidates(candidates, labels, gallery, self.definition, self._first_name)

    @property
    def scores_all(self) -> bool:
        """Whether all pairs are scored, in both directions."""
        top = self._options.top
        return top is None or top >= max(self._first.shape)

    def _from(self, transposed: bool) -> Scores:
        return self._first.transpose() if transposed else self._first

    def _add(self, found: np.ndarray, first: np.ndarray) -> np.ndarray:
        """The scores of pairs, with those of the first stage if they count."""
        if weight := self._options.first_stage_weight:
            found = found + weight * first
        return found

    def _find(self, transposed: bool) -> tuple[np.ndarray, np.ndarray]:
        """The best items of every query in the first stage, int [Q, K]; if K is all, by position.

        And their scores there, [Q, K]; [Q, 0] if these serve nothing.
        """
        first = self._from(transposed)
        queries, items = first.shape
        top = min(self._options.top or items, items)
        if top == items and not self._options.first_stage_weight:
            every = np.broadcast_to(np.arange(items, dtype=np.int32), first.shape)
            return every, np.empty((queries, 0), first.dtype)
        found, scores = np.empty((queries, top), np.int32), np.empty((queries, top), first.dtype)
        for at, rows in first.blocks(np.arange(queries)):
            found[at] = top_items(rows, top) if top < items else np.arange(items)
            scores[at] = np.take_along_axis(rows, found[at], axis=1)
        return found, scores


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
