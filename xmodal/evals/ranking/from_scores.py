"""Answers all retrieval tasks between two galleries, from one pass over their scores."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from xmodal.evals.boards.positives import Ragged, Relation
from xmodal.evals.boards.types import RetrievalTask
from xmodal.evals.metrics import compute_map_at_r, compute_r_precision
from xmodal.evals.ranking.products import Scores, complete_rows
from xmodal.evals.ranking.ranks import Question, Ranks, compute_ranks

# Metrics of the top of a list, and the function of each.
LIST_METRICS = {
    "map@r": compute_map_at_r,
    "r_precision": compute_r_precision,
    "pmrp": compute_r_precision,
}
# Longest list that is kept; PCME's R-Precision, whose R goes into the thousands, is counted.
_LONGEST_LIST = 256


@dataclasses.dataclass(frozen=True)
class TaskAnswer:
    """Results of one task, a row of every query in the gallery of queries.

    Attributes:
      rank: int32 [Q], items ahead of the best positive; None if that is not known.
      tied: bool [Q], see `Ranks`; None if that is not known.
      values: metric of `LIST_METRICS` or recall -> float64 [Q] in percent; arbitrary where a query
        has no positive.
      missing: metric -> why it could not be computed.
    """

    rank: np.ndarray | None
    tied: np.ndarray | None
    values: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    missing: Mapping[str, str] = dataclasses.field(default_factory=dict)


def answer_tasks(
    scores: Scores,
    forward: Sequence[RetrievalTask],
    backward: Sequence[RetrievalTask] = (),
    *,
    exclude_self: bool = False,
) -> tuple[list[TaskAnswer], list[TaskAnswer]]:
    """Answers all tasks between two galleries.

    `forward` are tasks of the Q queries; `backward` those of the N items, which then look for the
    queries. For `exclude_self` see `compute_ranks`.
    """
    if not forward and not backward:
        return [], []
    both = (forward, backward)
    questions = (
        [Question(task.positives, task.folds) for task in tasks if _asks_ranks(task)]
        for tasks in both
    )
    depths = tuple(
        max((_needed_depth(task) for task in tasks if _is_listed(task)), default=0)
        for tasks in both
    )
    answers = compute_ranks(scores, *questions, exclude_self=exclude_self, depths=depths)
    found = []
    for tasks, each, side in zip(both, answers, (scores, scores.transpose()), strict=True):
        ranks = iter(each.ranks)
        found.append(
            [
                _answer(task, next(ranks) if _asks_ranks(task) else None, each.lists, side)
                for task in tasks
            ]
        )
    return tuple(found)


def has_positives(task: RetrievalTask) -> np.ndarray:
    """Which queries have a positive, bool [Q]."""
    return np.any([_count(task, relation) > 0 for relation in task.relations], axis=0)


def compute_list_values(
    task: RetrievalTask, lists: np.ndarray, rows: np.ndarray, metric: str
) -> np.ndarray:
    """Returns a metric of `LIST_METRICS` from the tops of lists, float64 [P] in percent.

    Args:
      task: the task.
      lists: int32 [Q, depth], items by falling score, -1 behind the last; depth is at least the
        largest R.
      rows: int [P], queries with a positive.
      metric: its name.
    """
    values = []
    for relation in task.relations:
        hits = relation.contains(rows[:, None], lists[rows])
        values.append(LIST_METRICS[metric](hits, compute_r(task, relation)[rows]))
    return 100.0 * np.mean(values, axis=0)


def compute_r(task: RetrievalTask, relation: Ragged | Relation) -> np.ndarray:
    """R of every query: its positives, at most the cap; int64 [Q]."""
    count = _count(task, relation)
    return count if task.cap is None else np.minimum(count, task.cap)


def _count(task: RetrievalTask, relation: Ragged | Relation) -> np.ndarray:
    return relation.lengths + (0 if task.unreachable is None else task.unreachable)


def _needed_depth(task: RetrievalTask) -> int:
    if not set(task.metrics) & set(LIST_METRICS):
        return 0
    return max(int(compute_r(task, relation).max(initial=0)) for relation in task.relations)


def _is_listed(task: RetrievalTask) -> bool:
    """Whether lists are kept for this task: they are over the whole gallery and not endless."""
    return task.folds is None and _needed_depth(task) <= _LONGEST_LIST


def _asks_ranks(task: RetrievalTask) -> bool:
    return not set(task.metrics) <= set(LIST_METRICS)


def _answer(
    task: RetrievalTask, ranks: Ranks | None, lists: np.ndarray, scores: Scores
) -> TaskAnswer:
    queries, items = scores.shape
    is_query = has_positives(task)
    values = {}
    for metric in task.metrics:
        if metric in LIST_METRICS:
            values[metric] = np.zeros(queries)
            if _is_listed(task):
                rows = np.flatnonzero(is_query)
                values[metric][rows] = compute_list_values(task, lists, rows, metric)
            else:
                values[metric] = _count_r_precision(task, metric, scores)
    if ranks is None:
        return TaskAnswer(None, np.zeros(queries, bool), values)
    # All positives of a query may be outside the gallery: it counts, and misses.
    rank = np.where(ranks.rank < 0, items, ranks.rank).astype(np.int32)
    return TaskAnswer(rank, ranks.tied, values)


def _count_r_precision(task: RetrievalTask, metric: str, scores: Scores) -> np.ndarray:
    if LIST_METRICS[metric] is not compute_r_precision:
        raise ValueError(
            f"{metric} needs lists over the whole gallery of at most {_LONGEST_LIST} items; these "
            f"would be {_needed_depth(task)} long{' and of folds' if task.folds else ''}."
        )
    values = []
    for relation in task.relations:
        r = compute_r(task, relation)
        values.append(count_hits(scores, relation, r, task.folds) / np.maximum(r, 1))
    return 100.0 * np.mean(values, axis=0)


def count_hits(
    scores: Scores,
    relation: Relation,
    r: np.ndarray,
    folds: tuple[np.ndarray, np.ndarray] | None = None,
) -> np.ndarray:
    """Returns the number of positives among the first R items, int [Q], for an R of thousands.

    Of two equal scores the smaller position comes first. `r` is int [Q], at most the number of
    items a query meets; `folds` as in `RetrievalTask`.
    """
    queries, rows = scores.shape[0], scores.tile_shape[0]
    counts = np.zeros(queries, np.int64)
    for start in range(0, queries, rows):
        for query, row in enumerate(complete_rows(scores, start // rows), start):
            if folds is not None:
                row = np.where(folds[1] == folds[0][query], row, -np.inf)
            top = np.argsort(-row, kind="stable")[: r[query]]
            counts[query] = np.sum(relation.contains(query, top))
    return counts
