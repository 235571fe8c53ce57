"""Ranks the best items of the towers again, by the scores of pairs.

Two keys rank: scored pairs by their score, then the others in the order of the first stage. Each
direction has its own candidates.
"""

import dataclasses
import functools
import os
from collections.abc import Callable
from typing import Protocol

import numpy as np

from xmodal.core.config import setting
from xmodal.core.errors import UserError
from xmodal.evals.labels.types import DirectionLabels
from xmodal.evals.reports.metrics import RECALL
from xmodal.evals.reports.results import Rescored
from xmodal.evals.scores.ranks import LIST_METRICS, find_deepest
from xmodal.evals.scores.score_rows import Scores, top_items
from xmodal.evals.scores.sources import LARGEST_SCORE

_PAIRS_AT_A_TIME = 1 << 22  # Looked up among positives.


class Pairs(Protocol):
    """Scores of pairs of images and captions."""

    def pairs(self, images: np.ndarray, captions: np.ndarray) -> np.ndarray:
        """Returns the scores [P] of pairs at positions [P]."""


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

    def check(self, where: str) -> None:
        """Checks that the file of a first stage exists; `where` is the section.

        Raises:
          UserError: there is none.
        """
        if self.first_stage and not os.path.isfile(self.first_stage):
            raise UserError(
                f"{where}.first_stage={self.first_stage!r} is not a file: name one of embeddings, "
                "which xmodal evaluate writes with --save_embeddings."
            )


@dataclasses.dataclass(frozen=True)
class SimilarityReranker(PairReranker):
    """The reranker "similarity": the similarity of token sets ranks another model's best items."""

    def check(self, where: str) -> None:
        """See `PairReranker`; a first stage is needed."""
        if not self.first_stage:
            raise UserError(
                f"{where} is 'similarity', whose first stage is another model: name a file of its "
                f"embeddings in {where}.first_stage, or remove the reranker to score all pairs."
            )
        super().check(where)


def name_sum(pairs: str, weight: float, similarity: str) -> str:
    """Returns the definition of a pair's score with that of the first stage added, if it is."""
    factor = "" if weight == 1 else f"{weight:g} "
    return f"{pairs} + {factor}{similarity}" if weight else pairs


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
        if self._candidates.shape[1] == self.shape[1]:
            found = np.empty((len(queries), self.shape[1]), self.dtype)
            np.put_along_axis(found, self._candidates[queries], self._scores[queries], axis=1)
            return found
        given = zip(
            self._first.rows(queries), self._candidates[queries], self._scores[queries], strict=True
        )
        return np.stack([join_keys(*each) for each in given]).astype(self.dtype)

    def find_scored(self, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        """See `Scores`."""
        return np.any(self._candidates[queries] == items[:, None], axis=1)


class SecondStage:
    """Scores of images and captions in both directions; pairs are scored when needed."""

    def __init__(
        self,
        first: Scores | None,
        similarity: str,
        pairs: Pairs | None,
        definition: str,
        options: PairReranker,
        place: str,
    ) -> None:
        """Takes the scores of the first stage and their name, and the scores of pairs and theirs.

        Without a first stage, its scores are equal and its name is "": all pairs are scored.

        Raises:
          UserError: there is no cross-encoder, or no first stage to choose from; `place` names the
            source.
        """
        if pairs is None or first is None:
            raise UserError(
                f"The reranker 'cross_encoder' needs a model with a cross-encoder, and {place} has "
                "none: evaluate a run with config.model.cross_encoder, or remove the reranker."
            )
        weight = options.first_stage_weight
        if not similarity and (options.top is not None or weight):
            raise UserError(
                f"The reranker 'cross_encoder' has top={options.top} and "
                f"first_stage_weight={weight}, but {place} has no embeddings, which would be its "
                "first stage: remove both, so that all pairs are scored, or name another model's "
                "embeddings in first_stage."
            )
        self._first, self._pairs, self._options, self._place = first, pairs, options, place
        self._similarity = similarity
        self.definition = name_sum(definition, weight, similarity)
        self._candidates = functools.cache(self._find_candidates)

    def pairs(self, images: np.ndarray, captions: np.ndarray) -> np.ndarray:
        """Returns the scores [P] of exactly these pairs.

        Raises:
          UserError: a score is not finite.
        """
        added = self._options.first_stage_weight
        first = self._first.pairs(images, captions) if added else None
        return self._add(self._pairs.pairs(images, captions), first)

    def _add(self, found: np.ndarray, first: np.ndarray | None) -> np.ndarray:
        """The scores of pairs, with those of the first stage added."""
        if first is not None and (weight := self._options.first_stage_weight):
            found = found + weight * first
        if not np.all(np.abs(found) < LARGEST_SCORE):
            raise UserError(
                f"The cross-encoder of {self._place} returns scores that are not finite or above "
                f"{LARGEST_SCORE:,}; the model diverged."
            )
        return found

    def __call__(self, transposed: bool, asked: np.ndarray | None = None) -> JoinedScores:
        """Returns the scores to rank by; `transposed` if captions are the queries.

        `asked`: see `candidates`.
        """
        first = self._first.transpose() if transposed else self._first
        return JoinedScores(first, *self.candidates(transposed, asked))

    def candidates(
        self, transposed: bool, asked: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns positions int [Q, K] of every query's candidates, and their scores [Q, K].

        `asked`: bool [Q], queries whose candidates are scored; the scores of others are 0. None
        for all.
        """
        items, first = self._candidates(transposed)
        rows = slice(None) if asked is None else asked
        chosen = items[rows]
        queries = np.repeat(np.arange(len(items), dtype=np.int32)[rows], items.shape[1])
        ends = (chosen.ravel(), queries) if transposed else (queries, chosen.ravel())
        found = self._add(self._pairs.pairs(*ends).reshape(chosen.shape), first[rows])
        if len(found) == len(items):
            return items, found
        scores = np.zeros(items.shape, found.dtype)
        scores[rows] = found
        return items, scores

    @property
    def scores_all(self) -> bool:
        """Whether all pairs are scored, in both directions."""
        top = self._options.top
        return top is None or top >= max(self._first.shape)

    def describe(self, direction: DirectionLabels, transposed: bool) -> Rescored:
        """Returns the facts of a direction's second stage."""
        return describe_candidates(
            direction,
            self._candidates(transposed)[0],
            score=self.definition,
            first_stage=self._similarity,
            gallery=self._first.shape[0 if transposed else 1],
        )

    def _find_candidates(self, transposed: bool) -> tuple[np.ndarray, np.ndarray]:
        """The best items of every query in the first stage, int [Q, K]; if K is all, by position.

        And their scores there, [Q, K], or [Q, 0] if they are not added.
        """
        first = self._first.transpose() if transposed else self._first
        queries, items = first.shape
        top = min(self._options.top or items, items)
        added = top if self._options.first_stage_weight else 0
        found = np.broadcast_to(np.arange(items, dtype=np.int32), first.shape)
        scores = np.empty((queries, added), first.dtype)
        if top < items:
            found = np.empty((queries, top), np.int32)
        elif not added:
            return found, scores
        for at, rows in first.blocks(np.arange(queries)):
            if top < items:
                found[at] = top_items(rows, top)
            scores[at] = np.take_along_axis(rows, found[at, :added], axis=1)
        return found, scores


def describe_candidates(
    direction: DirectionLabels,
    candidates: np.ndarray,
    *,
    score: str,
    first_stage: str,
    gallery: int,
    given: str = "",
) -> Rescored:
    """Returns the facts of a direction whose candidates [Q, K] were scored; see `Rescored`."""
    total = np.sum([relation.lengths for relation in direction.relations], axis=0)
    inside, undecided, deeper = total, 0, []
    if candidates.shape[1] < gallery:
        inside = np.zeros_like(total)
        for relation in direction.relations:
            inside += _count_candidates(candidates, relation.contains)
        scored = _count_scored(direction, candidates)
        if set(LIST_METRICS).intersection(direction.metrics):
            undecided = int(np.sum(find_deepest(direction) > scored))
        fewest = int(scored[total > 0].min(initial=gallery))
        recalls = (name for name in direction.metrics if name.startswith(RECALL))
        deeper = [name for name in recalls if int(name.removeprefix(RECALL)) > fewest]
    return Rescored(
        score=score,
        first_stage=first_stage,
        top=candidates.shape[1],
        gallery=gallery,
        positives=int(total.sum()),
        outside=int((total - inside).sum()),
        queries=int(np.sum(total > 0)),
        missed=int(np.sum((total > 0) & (inside == 0))),
        undecided=undecided,
        given=given,
        recalls=", ".join(deeper),
    )


def _count_scored(direction: DirectionLabels, candidates: np.ndarray) -> np.ndarray:
    """Candidates of every query, of its own fold if there are folds; int [Q]."""
    if direction.folds is None:
        return np.full(len(candidates), candidates.shape[1])
    of_queries, of_items = direction.folds
    return _count_candidates(candidates, lambda rows, items: of_items[items] == of_queries[rows])


def _count_candidates(
    candidates: np.ndarray, holds: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> np.ndarray:
    """Candidates of every query that something holds for, int [Q].

    `holds`: queries [b, 1] and their candidates [b, K] -> bool [b, K].
    """
    step = max(1, _PAIRS_AT_A_TIME // candidates.shape[1])
    rows = np.arange(len(candidates))[:, None]
    parts = [slice(start, start + step) for start in range(0, len(rows), step)]
    return np.concatenate(
        [np.count_nonzero(holds(rows[at], candidates[at]), axis=1) for at in parts]
    )


def join_keys(row: np.ndarray, scored: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Returns one number per item whose order is that of two keys, floats [N].

    Args:
      row: scores of the first stage, floats [N].
      scored: positions [K] of the items that were scored again.
      scores: their new scores, floats [K], which they keep.
    """
    found = np.empty(len(row), np.result_type(np.float32, scores))
    others = np.ones(len(row), bool)
    others[scored] = False
    found[scored] = scores
    different, order = np.unique(row[others], return_inverse=True)
    # Not in half precision, which has too few integers below its scores for many items.
    found[others] = np.floor(float(scores.min())) - len(different) + order
    return found
