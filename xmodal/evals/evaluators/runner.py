"""Computes boards: the scores of every two galleries once, for all boards together."""

import functools
import hashlib
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from jax.sharding import Mesh

from xmodal.core.errors import UserError
from xmodal.evals.labels.definitions import DIRECTIONS, KINDS
from xmodal.evals.labels.ids import Positions
from xmodal.evals.labels.types import Board, DirectionLabels, Labels
from xmodal.evals.reports.chance import compute_chance
from xmodal.evals.reports.metrics import (
    compute_influence,
    compute_recall_values,
    compute_shares,
    compute_spearman,
    draw_pairs,
)
from xmodal.evals.reports.results import BoardResult, CorrelationResult, DirectionResult
from xmodal.evals.scores import galleries, lists
from xmodal.evals.scores.files import name_of, open_source
from xmodal.evals.scores.from_candidates import ScoredCandidates
from xmodal.evals.scores.ranks import RankedQueries, has_positives, rank_directions, rank_queries
from xmodal.evals.scores.rerank import RerankedScores, RowReranker
from xmodal.evals.scores.score_rows import Scores, equal_scores
from xmodal.evals.scores.second_stage import PairReranker, SecondStage, SimilarityReranker
from xmodal.evals.scores.sources import Candidates, Embeddings, RankedLists, ScoreMatrix, Source
from xmodal.evals.scores.token_pairs import open_token_pairs
from xmodal.evals.scores.vector_scores import open_scores

_DIGITS = 12  # Of the hash that tells files of one name apart.

Modalities = tuple[str, str]
Reranker = RowReranker | PairReranker


class ScoresOfPairs(Protocol):
    """Scores of single pairs (`Scores` and `SecondStage` have them)."""

    def pairs(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Returns the scores [P] of pairs at positions [P]."""


class OpenScores:
    """The scores between every two galleries of a split, and those that rank its directions."""

    def __init__(
        self,
        source: Embeddings | ScoreMatrix,
        labels: galleries.Ids,
        *,
        mesh: Mesh | None = None,
        reranker: Reranker | None = None,
        task: str = "",
        precision: str = "float32",
    ) -> None:
        """Opens the scores of a source in the order of the labels, see `compute_boards`."""
        self._reranker, self._task, self._mesh = reranker, task, mesh
        self._source, self._first = source, ""
        self.between: dict[Modalities, Scores] = {}
        if isinstance(source, ScoreMatrix):
            self.between["image", "text"] = galleries.order_scores(source, labels)
        else:
            self._source = ordered = galleries.order_embeddings(source, labels)
            self._first = ordered.similarity
            # Opening a similarity of token sets scores all pairs.
            if ordered.sides and not isinstance(reranker, SimilarityReranker):
                self.between |= open_scores(ordered, mesh=mesh, precision=precision)
            elif not isinstance(reranker, PairReranker):
                raise UserError(
                    f"{source.place} has no embeddings, only a cross-encoder: set the evaluator's "
                    "reranker to {'name': 'cross_encoder'}."
                )
            elif not reranker.first_stage:
                sizes = len(labels.image_ids), len(labels.caption_ids)
                self.between["image", "text"], self._first = equal_scores(*sizes), ""
            if isinstance(reranker, PairReranker) and (path := reranker.first_stage):
                found, self._first = _open_first_stage(path, labels, mesh)
                self.between["image", "text"] = found

    @functools.cached_property
    def stage(self) -> SecondStage | None:
        """The second stage, if there is one; nothing is computed yet."""
        source, reranker = self._source, self._reranker
        if not isinstance(reranker, PairReranker):
            return None
        pairs, definition = None, ""
        if isinstance(source, Embeddings):
            pairs = source.pairs
            if isinstance(reranker, SimilarityReranker):
                pairs = open_token_pairs(source, self._mesh, reranker.top)
                definition = source.similarity
            elif source.pairs is not None:
                definition = source.pairs.definition
        between = self.between.get(("image", "text"))
        return SecondStage(between, self._first, pairs, definition, reranker, source.place)

    def ranking(self, direction: str, asked: np.ndarray | None = None) -> Scores:
        """Returns the scores that rank the queries of a direction.

        `asked`: bool [Q], queries that are ranked; scores of others may be arbitrary. None for all.
        """
        modalities = DIRECTIONS[direction]
        transposed = modalities not in self.between
        between = self.between[modalities[::-1] if transposed else modalities]
        if self._reranker is None or modalities[0] == modalities[1]:
            return between.transpose() if transposed else between
        if isinstance(self._reranker, PairReranker):
            assert self.stage is not None
            return self.stage(transposed, asked)
        source = self._source
        predictions = source.predictions if isinstance(source, Embeddings) else {}
        if self._task not in predictions:
            raise UserError(
                f"{source.place} has no predictions of task {self._task!r} for reranking."
            )
        return RerankedScores(
            between, predictions[self._task], self._reranker, transposed=transposed
        )

    def answer(
        self, boards: Sequence[Board], budget: int | None
    ) -> tuple[dict[tuple[str, str], RankedQueries], dict[Modalities, ScoresOfPairs]]:
        """Ranks all directions of boards, and returns scores of single pairs that were graded.

        The scores of every two galleries are computed once, if they fit the budget, and are
        released before those of the next.
        """
        answers: dict[tuple[str, str], RankedQueries] = {}
        graded: dict[Modalities, ScoresOfPairs] = {}
        for modalities, between in self.between.items():
            within = modalities[0] == modalities[1]
            forward = _directions_of(boards, modalities)
            backward = {} if within else _directions_of(boards, modalities[::-1])
            if within or self._reranker is None:
                found = rank_directions(
                    between, list(forward.values()), list(backward.values()),
                    exclude_self=within, budget=budget,
                )  # fmt: skip
                for directions, each in zip((forward, backward), found, strict=True):
                    answers |= zip(directions, each, strict=True)
            else:
                answers |= self._rank_again(forward) | self._rank_again(backward)
            graded[modalities] = between
        if self.stage is not None:
            graded["image", "text"] = self.stage
        return answers, graded

    def _rank_again(
        self, directions: Mapping[tuple[str, str], DirectionLabels]
    ) -> dict[tuple[str, str], RankedQueries]:
        if not directions:
            return {}
        asked = np.any([has_positives(labels) for labels in directions.values()], axis=0)
        scores = self.ranking(next(iter(directions))[1], asked)
        found = rank_queries(scores, list(directions.values()))
        return dict(zip(directions, found, strict=True))


def _directions_of(
    boards: Sequence[Board], modalities: Modalities
) -> dict[tuple[str, str], DirectionLabels]:
    return {
        (board.name, name): direction
        for board in boards
        for name, direction in board.directions.items()
        if DIRECTIONS[name] == modalities
    }


def compute_boards(
    source: Source,
    labels: Labels,
    boards: Sequence[Board],
    *,
    bootstrap_samples: int = 1000,
    seed: int = 0,
    budget: int | None = None,
    mesh: Mesh | None = None,
    reranker: Reranker | None = None,
    task: str = "",
    precision: str = "float32",
) -> list[BoardResult]:
    """Computes everything on the boards that the source allows, and names the rest.

    Args:
      source: embeddings, scores, candidates or ranked lists that have all items of the labels.
      labels: labels of the split; they name the queries and group the captions of one image.
      boards: boards to compute.
      bootstrap_samples: samples of every correlation.
      seed: seed of their draws.
      budget: bytes that a matrix of scores may take, see `rank_directions`.
      mesh: galleries are sharded over its `data` axis.
      reranker: maps complete rows of scores between images and captions to the rows to rank by,
        correlations use the original scores; or scores pairs, also those of correlations.
      task: task whose predictions the reranker uses.
      precision: "float32" or "float64", of scores of vectors.

    Raises:
      UserError: an embedding or a score is not finite; the source lacks items of the labels, or
        the predictions of the task.
    """
    stage: SecondStage | ScoredCandidates | None = None
    rating: dict[Modalities, ScoresOfPairs] = {}
    if isinstance(source, RankedLists):
        answers = _read_lists(source, boards, labels)
    elif isinstance(source, Candidates):
        if reranker is not None:
            raise UserError(
                f"{source.place} has candidates, which are ranked; remove the reranker."
            )
        stage = ScoredCandidates(source, labels, mesh=mesh, precision=precision)
        answers = stage.answer(boards)
        if (whole := stage.whole()) is not None:
            rating["image", "text"] = whole
    else:
        scores = OpenScores(
            source, labels, mesh=mesh, reranker=reranker, task=task, precision=precision
        )
        answers, rating = scores.answer(boards, budget)
        stage = scores.stage
    correlations = correlate(rating, labels, boards, bootstrap_samples, seed)
    queries = _Queries(labels)
    results = []
    for board in boards:
        directions = {
            name: queries.result(each, answers[board.name, name], name, stage)
            for name, each in board.directions.items()
            if (board.name, name) in answers
        }
        correlated = {name: correlations[name] for name in board.graded if name in correlations}
        left_out = (set(board.directions) | set(board.graded)) - set(directions) - set(correlated)
        skipped = {name: _why_skipped(source, board, name) for name in sorted(left_out)}
        facts = (board.name, board.definition, board.label_hash)
        results.append(BoardResult(*facts, directions, correlated, skipped))
    return results


def _open_first_stage(path: str, items: galleries.Ids, mesh: Mesh | None) -> tuple[Scores, str]:
    """The scores of images and captions of a file of embeddings, in the order of the items.

    And their name, with the similarity, the file's name and its hash: "cosine of vse (sha256
    0123...)".
    """
    found = open_source("embeddings", path)
    assert isinstance(found, Embeddings)
    if len(found.sides) < 2:
        raise UserError(f"The first stage {path} has embeddings of one side only; save both.")
    ordered = galleries.order_embeddings(found, items)
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()[:_DIGITS]
    name = f"{found.similarity} of {name_of(path)} (sha256 {digest})"
    return open_scores(ordered, mesh=mesh)["image", "text"], name


def _read_lists(
    source: RankedLists, boards: Sequence[Board], labels: Labels
) -> dict[tuple[str, str], RankedQueries]:
    ranked = lists.order_rankings(source, labels, boards)
    sizes = {"image": len(labels.image_ids), "text": len(labels.caption_ids)}
    return {
        (board.name, name): lists.answer_lists(ranked[name], direction, sizes[DIRECTIONS[name][1]])
        for board in boards
        for name, direction in board.directions.items()
        if name in ranked
    }


def correlate(
    scores: Mapping[Modalities, ScoresOfPairs],
    labels: Labels,
    boards: Sequence[Board],
    samples: int,
    seed: int,
) -> dict[str, CorrelationResult]:
    """Returns the correlation of scores with the graded pairs of boards, by rating.

    Args:
      scores: scores by the modalities of the pairs; directions of other modalities are left out.
      labels: labels of the split.
      boards: boards that have graded pairs.
      samples: samples of every correlation.
      seed: seed of their draws.
    """
    images = {
        "image": np.asarray(labels.image_ids, np.int64),
        "text": np.asarray(labels.caption_image_ids, np.int64),
    }
    results = {}
    for board in boards:
        for rating, pairs in board.graded.items():
            between, ends = pairs.modalities, (pairs.left, pairs.right)
            if between == ("text", "image"):
                between, ends = between[::-1], ends[::-1]
            if between in scores and rating not in results:
                drawn = draw_pairs(pairs.pairs_of_query, samples=samples, seed=seed)
                values = scores[between].pairs(*ends)
                shares = compute_shares(pairs.pairs_of_query, len(values))
                influence = compute_influence(values, pairs.scores, shares)
                results[rating] = CorrelationResult(
                    samples=100.0 * compute_spearman(values, pairs.scores, drawn),
                    pairs_per_sample=drawn.shape[1],
                    images=np.stack([images[k][at] for k, at in zip(between, ends, strict=True)]),
                    influence=(100.0 * influence).astype(np.float32),
                )
    return results


class _Queries:
    """Names the queries of a split."""

    def __init__(self, labels: Labels) -> None:
        image_ids, caption_ids = np.asarray(labels.image_ids), np.asarray(labels.caption_ids)
        self._ids = {"image": image_ids, "text": caption_ids}
        # In a part of a split, a caption's image may be missing.
        own = np.asarray(labels.caption_image_ids)
        image = Positions("image", image_ids).find(own)
        absent = len(image_ids) + np.unique(own, return_inverse=True)[1]
        self._clusters = {
            "image": np.arange(len(image_ids)),
            "text": np.where(image >= 0, image, absent),
        }

    def result(
        self,
        labels: DirectionLabels,
        answer: RankedQueries,
        direction: str,
        stage: SecondStage | ScoredCandidates | None,
    ) -> DirectionResult:
        """Returns the answer for the queries with a positive, with their ids."""
        query, gallery = DIRECTIONS[direction]
        rows = np.flatnonzero(has_positives(labels))
        values = {metric: each[rows] for metric, each in answer.values.items()}
        rank = None
        if answer.rank is not None:
            rank = answer.rank[rows]
            values = compute_recall_values(rank, labels.metrics) | values
        items = len(self._ids[gallery])
        if labels.folds is not None:
            sizes = np.bincount(labels.folds[1])
            items = int(sizes[labels.folds[0][rows]].max(initial=0))
        return DirectionResult(
            query_ids=self._ids[query][rows].astype(np.int64),
            clusters=self._clusters[query][rows].astype(np.int32),
            values=values,
            rank=rank,
            tied=None if answer.tied is None else answer.tied[rows],
            rounded=answer.rounded,
            gallery=items - (query == gallery),
            skipped=len(self._ids[query]) - len(rows),
            has_median="median_rank" in labels.metrics and rank is not None,
            missing=answer.missing,
            rescored=None
            if stage is None or query == gallery
            else stage.describe(labels, transposed=query == "text"),
            chance=compute_chance(labels, len(self._ids[gallery]), exclude_self=query == gallery),
        )


def _modalities(board: Board, name: str) -> Modalities:
    return DIRECTIONS[name] if name in board.directions else board.graded[name].modalities


def _why_skipped(source: Source, board: Board, direction: str) -> str:
    needed = _modalities(board, direction)
    if isinstance(source, RankedLists):
        if direction in ("i2t", "t2i"):
            return f"there are no {direction} lists"
        return "ranked lists are between images and captions, and have no scores"
    if isinstance(source, Candidates):
        if direction in ("i2t", "t2i"):
            return f"there are no {direction} candidates"
        if set(needed) == {"image", "text"}:
            return "its rated pairs are not all among the candidates"
        return "candidates are between images and captions"
    if isinstance(source, ScoreMatrix):
        return "a score matrix compares images with captions only"
    missing = [KINDS[side] for side in dict.fromkeys(needed) if side not in source.sides]
    if not missing:
        return f"the similarity {source.similarity!r} compares images with captions only"
    return f"there are no {' and no '.join(missing)} embeddings"
