"""Computes boards: one pass over the scores of every two galleries, for all boards together."""

from collections.abc import Callable, Mapping, Sequence
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
from xmodal.evals.scores.first_stage import open_first_stage
from xmodal.evals.scores.from_candidates import ScoredCandidates
from xmodal.evals.scores.from_lists import answer_lists
from xmodal.evals.scores.from_scores import (
    RankedQueries,
    Reranked,
    has_positives,
    rank_directions,
    rank_reranked,
)
from xmodal.evals.scores.products import open_scores
from xmodal.evals.scores.rerank import RowReranker, rerank
from xmodal.evals.scores.saved_scores import SavedScores
from xmodal.evals.scores.score_tiles import Scores
from xmodal.evals.scores.second_stage import PairReranker, Pairs, SecondStage, SimilarityReranker
from xmodal.evals.scores.sources import Candidates, Embeddings, RankedLists, ScoreMatrix, Source
from xmodal.evals.scores.token_pairs import open_token_pairs

_BLOCK_SIZE = 1024

Modalities = tuple[str, str]
Reranker = RowReranker | PairReranker


def compute_boards(
    source: Source,
    labels: Labels,
    boards: Sequence[Board],
    *,
    bootstrap_samples: int = 1000,
    seed: int = 0,
    block_size: int = _BLOCK_SIZE,
    mesh: Mesh | None = None,
    reranker: Reranker | None = None,
    task: str = "",
) -> list[BoardResult]:
    """Computes everything on the boards that the source allows, and names the rest.

    Args:
      source: embeddings, scores, candidates or ranked lists that have all items of the labels.
      labels: labels of the split; they name the queries and group the captions of one image.
      boards: boards to compute.
      bootstrap_samples: samples of every correlation.
      seed: seed of their draws.
      block_size: items per tile of scores; the results do not depend on it.
      mesh: galleries are sharded over its `data` axis.
      reranker: maps complete rows of scores between images and captions to the rows to rank by,
        correlations use the original scores; or scores pairs, also those of correlations.
      task: task whose predictions the reranker uses.

    Raises:
      ValueError: shapes disagree.
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
        stage = ScoredCandidates(source, labels, block_size=block_size, mesh=mesh)
        answers = stage.answer(boards)
        if (whole := stage.whole()) is not None:
            rating["image", "text"] = whole
    else:
        scores, ordered, first = _open(source, labels, block_size, mesh, reranker)
        reranked = (
            None if reranker is None else _rerank(scores, ordered, reranker, task, first, mesh)
        )
        _check_finite(scores, boards, source.place)
        answers = _rank(scores, boards, reranked)
        rating |= scores
        if isinstance(reranked, SecondStage):
            stage, rating["image", "text"] = reranked, reranked
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


def _open(
    source: Embeddings | ScoreMatrix,
    labels: galleries.Ids,
    block_size: int,
    mesh: Mesh | None,
    reranker: Reranker | None,
) -> tuple[dict[Modalities, Scores], Embeddings | ScoreMatrix, str]:
    """Scores between every two galleries of the split, embeddings in its order, and a name.

    Scores of images and captions are those of the first stage, if it is another model; the name is
    its, or else that of the similarity, "" without embeddings.
    """
    if isinstance(source, ScoreMatrix):
        matrix = galleries.order_scores(source, labels)
        saved = SavedScores(matrix, block_size=block_size, mesh=mesh)
        return {("image", "text"): saved}, source, ""
    ordered = galleries.order_embeddings(source, labels)
    if isinstance(reranker, PairReranker) and reranker.first_stage:
        place = reranker.first_stage
        first, name = open_first_stage(place, labels, block_size=block_size, mesh=mesh)
        # Opening a similarity of token sets scores all pairs.
        within = ordered.sides and not isinstance(reranker, SimilarityReranker)
        others = open_scores(ordered, block_size=block_size, mesh=mesh) if within else {}
        return {**others, ("image", "text"): first}, ordered, name
    if ordered.pairs is not None and not ordered.sides:
        if not isinstance(reranker, PairReranker):
            raise UserError(
                f"{source.place} has no embeddings, only a pair scorer: set the evaluator's "
                "reranker to {'name': 'pair_scorer'}."
            )
        equal = np.broadcast_to(np.float32(0), (len(labels.image_ids), len(labels.caption_ids)))
        saved = SavedScores(equal, block_size=block_size, mesh=mesh)
        return {("image", "text"): saved}, ordered, ""
    return open_scores(ordered, block_size=block_size, mesh=mesh), ordered, ordered.similarity


def _rerank(
    scores: Mapping[Modalities, Scores],
    source: Embeddings | ScoreMatrix,
    reranker: Reranker,
    task: str,
    first: str,
    mesh: Mesh | None,
) -> Reranked:
    """The scores of both directions to rank by; nothing is computed yet."""
    between = scores.get(("image", "text"))
    if isinstance(reranker, PairReranker):
        pairs: Pairs | None = source.pairs if isinstance(source, Embeddings) else None
        if isinstance(reranker, SimilarityReranker) and isinstance(source, Embeddings):
            pairs = open_token_pairs(source, mesh, reranker.top)
        return SecondStage(between, first, pairs, reranker, source.place)
    predictions = source.predictions if isinstance(source, Embeddings) else {}
    if task not in predictions:
        raise UserError(f"{source.place} has no predictions of task {task!r} for reranking.")
    return lambda transposed, asked=None: rerank(
        between, predictions[task], reranker, transposed=transposed
    )


def open_second_stage(
    source: Embeddings, labels: galleries.Ids, reranker: PairReranker, *, mesh: Mesh | None = None
) -> SecondStage:
    """Returns the second stage that `compute_boards` ranks by; see there for the arguments."""
    scores, ordered, first = _open(source, labels, _BLOCK_SIZE, mesh, reranker)
    stage = _rerank(scores, ordered, reranker, "", first, mesh)
    assert isinstance(stage, SecondStage)
    return stage


def open_rankings(
    source: Embeddings | ScoreMatrix,
    labels: galleries.Ids,
    *,
    mesh: Mesh | None = None,
    reranker: Reranker | None = None,
    task: str = "",
) -> Callable[[str], Scores]:
    """Returns the function direction -> scores that `compute_boards` ranks its queries by.

    See `compute_boards` for the arguments.
    """
    scores, ordered, first = _open(source, labels, _BLOCK_SIZE, mesh, reranker)
    reranked = None if reranker is None else _rerank(scores, ordered, reranker, task, first, mesh)

    def open_one(name: str) -> Scores:
        modalities = DIRECTIONS[name]
        transposed = modalities not in scores
        between = scores[modalities[::-1] if transposed else modalities]
        if reranked is not None and modalities[0] != modalities[1]:
            return reranked(transposed)
        return between.transpose() if transposed else between

    return open_one


def _check_finite(scores: Mapping[Modalities, Scores], boards: Sequence[Board], place: str) -> None:
    for modalities, between in scores.items():
        asked = [
            f"{board.name}/{name}"
            for board in boards
            for name in (*board.directions, *board.graded)
            if set(_modalities(board, name)) == set(modalities)
        ]
        if asked:
            between.check_finite(f"{place} for {', '.join(asked)}")


def _rank(
    scores: Mapping[Modalities, Scores],
    boards: Sequence[Board],
    reranked: Reranked | None,
) -> dict[tuple[str, str], RankedQueries]:
    """Answers all directions: one pass over the scores of every two galleries."""
    answers: dict[tuple[str, str], RankedQueries] = {}
    for (left, right), between in scores.items():
        forward, backward = (
            {
                (board.name, name): direction
                for board in boards
                for name, direction in board.directions.items()
                if DIRECTIONS[name] == modalities
            }
            for modalities in ((left, right), (right, left))
        )
        if left == right:
            answered = rank_directions(between, list(forward.values()), exclude_self=True)
            answers |= dict(zip(forward, answered[0], strict=True))
            continue
        if reranked is None:
            answered = rank_directions(between, list(forward.values()), list(backward.values()))
        else:
            answered = (
                rank_reranked(reranked, False, list(forward.values())),
                rank_reranked(reranked, True, list(backward.values())),
            )
        for directions, answer in zip((forward, backward), answered, strict=True):
            answers |= dict(zip(directions, answer, strict=True))
    return answers


def _read_lists(
    source: RankedLists, boards: Sequence[Board], labels: Labels
) -> dict[tuple[str, str], RankedQueries]:
    ranked = lists.order_rankings(source, labels, boards)
    sizes = {"image": len(labels.image_ids), "text": len(labels.caption_ids)}
    return {
        (board.name, name): answer_lists(ranked[name], direction, sizes[DIRECTIONS[name][1]])
        for board in boards
        for name, direction in board.directions.items()
        if name in ranked
    }


class ScoresOfPairs(Protocol):
    """Scores of single pairs (`ranking.score_tiles.Scores` is one)."""

    def pairs(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Returns the scores [P] of pairs at positions [P]."""


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
