"""Computes boards: one pass over the scores of every two galleries, for all boards together."""

from collections.abc import Mapping, Sequence

import numpy as np
from jax.sharding import Mesh

from xmodal.evals.boards.definitions import RETRIEVAL_TASKS
from xmodal.evals.boards.positions import Positions
from xmodal.evals.boards.types import Board, GradedPairs, Labels, RetrievalTask
from xmodal.evals.inputs.sources import RankedLists, ScoreMatrix, Source
from xmodal.evals.metrics import correlation
from xmodal.evals.metrics.recall import compute_recall_values
from xmodal.evals.ranking.from_lists import answer_lists
from xmodal.evals.ranking.from_scores import Found, answer_tasks, is_asked
from xmodal.evals.ranking.products import Gallery, Products, SavedScores, Scores
from xmodal.evals.results import BoardResult, CorrelationResult, TaskResult
from xmodal.losses.similarity import make_scorer

Modalities = tuple[str, str]


def evaluate_boards(
    source: Source,
    labels: Labels,
    boards: Sequence[Board],
    *,
    bootstrap_samples: int = 1000,
    seed: int = 0,
    block_size: int = 1024,
    mesh: Mesh | None = None,
) -> list[BoardResult]:
    """Computes everything of the boards that the source allows, and names the rest.

    Args:
      source: embeddings, scores or ranked lists in the order of the galleries.
      labels: of the split; they name the queries and say which captions belong to one image.
      boards: what to compute.
      bootstrap_samples: of every correlation.
      seed: of their draws.
      block_size: items per tile of scores; the results do not depend on it.
      mesh: galleries are spread over its `data` axis.

    Raises:
      ValueError: shapes disagree, or a value is not finite.
    """
    scores = _open_scores(source, block_size, mesh)
    found = (
        _read_lists(source, boards, labels)
        if isinstance(source, RankedLists)
        else _scan(scores, boards)
    )
    correlations = _correlate_all(scores, boards, bootstrap_samples, seed)
    queries = _Queries(labels)
    results = []
    for board in boards:
        tasks = {
            task: queries.result(asked, found[board.name, task], task)
            for task, asked in board.tasks.items()
            if (board.name, task) in found
        }
        correlated = {task: correlations[task] for task in board.graded if task in correlations}
        left_out = (set(board.tasks) | set(board.graded)) - set(tasks) - set(correlated)
        results.append(
            BoardResult(
                board.name,
                board.definition,
                board.label_hash,
                tasks,
                correlated,
                {task: _why_skipped(source, board, task) for task in sorted(left_out)},
            )
        )
    return results


def _open_scores(source: Source, block_size: int, mesh: Mesh | None) -> dict[Modalities, Scores]:
    """Scores between every two galleries that the source can compare."""
    if isinstance(source, RankedLists):
        return {}
    if isinstance(source, ScoreMatrix):
        return {("image", "text"): SavedScores(source.matrix, block_size=block_size, mesh=mesh)}
    prepare, score = make_scorer(source.similarity, source.parameters)
    vectors = {"image": source.image, "text": source.text}
    galleries = {
        name: Gallery(rows, prepare, block_size=block_size, mesh=mesh)
        for name, rows in vectors.items()
        if rows is not None
    }
    pairs = [("image", "text"), ("text", "text"), ("image", "image")]
    return {
        (left, right): Products(galleries[left], galleries[right], score)
        for left, right in pairs
        if {left, right} <= set(galleries)
    }


def _scan(
    scores: Mapping[Modalities, Scores], boards: Sequence[Board]
) -> dict[tuple[str, str], Found]:
    """Answers all retrieval tasks: one pass over the scores of every two galleries."""
    found = {}
    for (left, right), between in scores.items():
        directions = [
            {
                (board.name, name): task
                for board in boards
                for name, task in board.tasks.items()
                if RETRIEVAL_TASKS[name] == modalities
            }
            for modalities in ((left, right), (right, left))
        ]
        within = left == right
        if within:
            directions[1] = {}
        answers = answer_tasks(
            between, *(list(tasks.values()) for tasks in directions), exclude_self=within
        )
        for tasks, answer in zip(directions, answers, strict=True):
            found |= dict(zip(tasks, answer, strict=True))
    return found


def _read_lists(
    source: RankedLists, boards: Sequence[Board], labels: Labels
) -> dict[tuple[str, str], Found]:
    sides = {"i2t": (source.i2t, labels.caption_ids), "t2i": (source.t2i, labels.image_ids)}
    return {
        (board.name, name): answer_lists(sides[name][0], task, len(sides[name][1]))
        for board in boards
        for name, task in board.tasks.items()
        if name in sides and sides[name][0] is not None
    }


def _correlate_all(
    scores: Mapping[Modalities, Scores], boards: Sequence[Board], samples: int, seed: int
) -> dict[str, CorrelationResult]:
    results = {}
    for board in boards:
        for task, pairs in board.graded.items():
            between, ends = pairs.modalities, (pairs.left, pairs.right)
            if between == ("text", "image"):
                between, ends = between[::-1], ends[::-1]
            if between in scores and task not in results:
                results[task] = _correlate(scores[between].pairs(*ends), pairs, samples, seed)
    return results


def _correlate(
    model_scores: np.ndarray, pairs: GradedPairs, samples: int, seed: int
) -> CorrelationResult:
    drawn = correlation.draw_pairs(pairs.pairs_of_query, samples=samples, seed=seed)
    values = correlation.compute_spearman(model_scores, pairs.scores, drawn)
    return CorrelationResult(100.0 * values, len(pairs.scores), drawn.shape[1])


class _Queries:
    """Names the queries of a split."""

    def __init__(self, labels: Labels) -> None:
        image_ids, caption_ids = np.asarray(labels.image_ids), np.asarray(labels.caption_ids)
        self._ids = {"image": image_ids, "text": caption_ids}
        # On a part of a split, captions may be here without their image.
        own = np.asarray(labels.caption_image_ids)
        image = Positions("image", image_ids).find(own)
        absent = len(image_ids) + np.unique(own, return_inverse=True)[1]
        self._clusters = {
            "image": np.arange(len(image_ids)),
            "text": np.where(image >= 0, image, absent),
        }

    def result(self, asked: RetrievalTask, found: Found, task: str) -> TaskResult:
        """Puts what was found together with the queries that were asked."""
        query, gallery = RETRIEVAL_TASKS[task]
        rows = np.flatnonzero(is_asked(asked))
        values = {metric: each[rows] for metric, each in found.values.items()}
        rank = None
        if found.rank is not None:
            rank = found.rank[rows]
            values = compute_recall_values(rank, asked.metrics) | values
        items = len(self._ids[gallery])
        if asked.folds is not None:
            items = int(np.bincount(asked.folds[1]).max())
        return TaskResult(
            query_ids=self._ids[query][rows].astype(np.int64),
            clusters=self._clusters[query][rows].astype(np.int32),
            values=values,
            rank=rank,
            tied=None if found.tied is None else found.tied[rows],
            gallery=items - (query == gallery),
            skipped=len(self._ids[query]) - len(rows),
            has_median="median_rank" in asked.metrics and rank is not None,
            missing=found.missing,
        )


def _why_skipped(source: Source, board: Board, task: str) -> str:
    needed = RETRIEVAL_TASKS[task] if task in board.tasks else board.graded[task].modalities
    if isinstance(source, RankedLists):
        if task in ("i2t", "t2i"):
            return f"there are no {task} lists"
        return "ranked lists are between images and captions, and have no scores"
    if isinstance(source, ScoreMatrix):
        return "a score matrix compares images with captions only"
    given = {"image": ("image", source.image), "text": ("caption", source.text)}
    missing = [kind for kind, rows in map(given.get, dict.fromkeys(needed)) if rows is None]
    return f"there are no {' and no '.join(missing)} embeddings"
