"""Answers all directions between two galleries, from one pass over their scores."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from xmodal.core.progress import progress
from xmodal.evals.labels.positives import Ragged, Relation
from xmodal.evals.labels.types import DirectionLabels
from xmodal.evals.reports.metrics import compute_map_at_r, compute_r_precision
from xmodal.evals.scores.ranks import Answers, LabelSet, Ranks, compute_ranks
from xmodal.evals.scores.score_tiles import Scores, complete_rows

# Metrics of the top of a list, and their functions.
LIST_METRICS = {
    "map@r": compute_map_at_r,
    "r_precision": compute_r_precision,
    "pmrp": compute_r_precision,
}
# Longest list that is kept; PCME's R-Precision, whose R can be thousands, is counted instead.
_LONGEST_LIST = 256


@dataclasses.dataclass(frozen=True)
class RankedQueries:
    """Results of one direction, with one row per query in the gallery of queries.

    Attributes:
      rank: int32 [Q], items ahead of the best positive; None if not known.
      tied: bool [Q], see `Ranks`; if no rank is needed, whether the R-th item and the next have
        equal scores, so that the tie rule decides which one counts. None if not known.
      values: metric of `LIST_METRICS` or recall -> float64 [Q] in percent; arbitrary if a query
        has no positive.
      missing: metric -> why it could not be computed.
    """

    rank: np.ndarray | None
    tied: np.ndarray | None
    values: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    missing: Mapping[str, str] = dataclasses.field(default_factory=dict)


def rank_directions(
    scores: Scores,
    forward: Sequence[DirectionLabels],
    backward: Sequence[DirectionLabels] = (),
    *,
    exclude_self: bool = False,
) -> tuple[list[RankedQueries], list[RankedQueries]]:
    """Answers all directions between two galleries.

    `forward` are labels of the Q queries; `backward` are labels of the N items, which then rank the
    queries. See `compute_ranks` for `exclude_self`.
    """
    if not forward and not backward:
        return [], []
    both = (forward, backward)
    label_sets = (
        [
            LabelSet(listed_positives(labels), labels.folds)
            for labels in directions
            if _asks_ranks(labels)
        ]
        for directions in both
    )
    of_forward, of_backward = (
        max((_needed_depth(labels) + 1 for labels in directions if _is_listed(labels)), default=0)
        for directions in both
    )
    depths = of_forward, of_backward
    answers = compute_ranks(scores, *label_sets, exclude_self=exclude_self, depths=depths)
    found = []
    for directions, each, side in zip(both, answers, (scores, scores.transpose()), strict=True):
        ranks = iter(each.ranks)
        found.append(
            [
                _answer(labels, next(ranks) if _asks_ranks(labels) else None, each, side)
                for labels in directions
            ]
        )
    return found[0], found[1]


class Reranked(Protocol):
    """Scores that a direction has of its own: a row of one is not a column of the other."""

    def __call__(self, transposed: bool, asked: np.ndarray | None = None) -> Scores:
        """Returns the scores to rank by.

        Args:
          transposed: whether captions are the queries.
          asked: bool [Q], queries that are ranked; scores of others may be arbitrary. None for all.
        """


def rank_reranked(
    reranked: Reranked, transposed: bool, directions: Sequence[DirectionLabels]
) -> list[RankedQueries]:
    """Answers the directions of the queries on one side, see `Reranked`."""
    if not directions:
        return []
    asked = np.any([has_positives(labels) for labels in directions], axis=0)
    return rank_directions(reranked(transposed, asked), directions)[0]


def listed_positives(labels: DirectionLabels) -> Ragged:
    """Returns the positives of a direction that needs ranks, which are always lists."""
    assert isinstance(labels.positives, Ragged)
    return labels.positives


def has_positives(labels: DirectionLabels) -> np.ndarray:
    """Which queries have a positive, bool [Q]."""
    return np.any([_count(labels, relation) > 0 for relation in labels.relations], axis=0)


def compute_list_values(
    labels: DirectionLabels, lists: np.ndarray, rows: np.ndarray, metric: str
) -> np.ndarray:
    """Returns a metric of `LIST_METRICS` from the tops of lists, float64 [P] in percent.

    Args:
      labels: positives of the direction.
      lists: int32 [Q, depth], items by descending score, -1 after the last; depth is at least the
        largest R.
      rows: int [P], queries with a positive.
      metric: its name.
    """
    values = []
    for relation in labels.relations:
        hits = relation.contains(rows[:, None], lists[rows])
        values.append(LIST_METRICS[metric](hits, compute_r(labels, relation)[rows]))
    return 100.0 * np.mean(values, axis=0)


def compute_r(labels: DirectionLabels, relation: Ragged | Relation) -> np.ndarray:
    """R of every query, the number of its positives up to the cap; int64 [Q]."""
    count = _count(labels, relation)
    return count if labels.cap is None else np.minimum(count, labels.cap)


def _count(labels: DirectionLabels, relation: Ragged | Relation) -> np.ndarray:
    return relation.lengths + (0 if labels.unreachable is None else labels.unreachable)


def _needed_depth(labels: DirectionLabels) -> int:
    if not set(labels.metrics) & set(LIST_METRICS):
        return 0
    return max(int(compute_r(labels, relation).max(initial=0)) for relation in labels.relations)


def _is_listed(labels: DirectionLabels) -> bool:
    """Whether lists are kept for this direction: over the whole gallery and not too long."""
    return labels.folds is None and 0 < _needed_depth(labels) <= _LONGEST_LIST


def _asks_ranks(labels: DirectionLabels) -> bool:
    return not set(labels.metrics) <= set(LIST_METRICS)


def _answer(
    labels: DirectionLabels, ranks: Ranks | None, answers: Answers, scores: Scores
) -> RankedQueries:
    queries, items = scores.shape
    asked = [metric for metric in labels.metrics if metric in LIST_METRICS]
    values, tied = {}, None
    if asked and _is_listed(labels):
        rows = np.flatnonzero(has_positives(labels))
        for metric in asked:
            values[metric] = np.zeros(queries)
            values[metric][rows] = compute_list_values(labels, answers.lists, rows, metric)
        tied = _find_cut_ties(labels, answers)
    elif asked:
        precision, tied = _count_r_precision(labels, asked, scores)
        values = dict.fromkeys(asked, precision)
    if ranks is None:
        return RankedQueries(None, tied, values)
    # All positives of a query may be outside the gallery: it counts as a miss.
    rank = np.where(ranks.rank < 0, items, ranks.rank).astype(np.int32)
    return RankedQueries(rank, ranks.tied, values)


def _find_cut_ties(labels: DirectionLabels, answers: Answers) -> np.ndarray:
    """Whether the R-th item of a list and the next have equal scores, bool [Q]."""
    tied = np.zeros(len(answers.lists), bool)
    for relation in labels.relations:
        r = compute_r(labels, relation)[:, None]
        last, following = (
            np.take_along_axis(answers.list_scores, at, axis=1) for at in (np.maximum(r - 1, 0), r)
        )
        exists = np.take_along_axis(answers.lists, r, axis=1) >= 0
        tied |= ((last == following) & exists & (r > 0))[:, 0]
    return tied


def _count_r_precision(
    labels: DirectionLabels, metrics: Sequence[str], scores: Scores
) -> tuple[np.ndarray, np.ndarray]:
    """R-Precision [Q] in percent, and whether the R-th and the next score are equal, bool [Q]."""
    for metric in metrics:
        if LIST_METRICS[metric] is not compute_r_precision:
            raise ValueError(
                f"{metric} needs lists over the whole gallery of at most {_LONGEST_LIST} items; "
                f"these would be {_needed_depth(labels)} long"
                f"{' and of folds' if labels.folds else ''}."
            )
    depths = [compute_r(labels, relation) for relation in labels.relations]
    hits, tied = count_hits(scores, labels.relations, depths, labels.folds)
    return 100.0 * np.mean(hits / np.maximum(depths, 1), axis=0), np.any(tied, axis=0)


def count_hits(
    scores: Scores,
    relations: Sequence[Ragged | Relation],
    depths: Sequence[np.ndarray],
    folds: tuple[np.ndarray, np.ndarray] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Counts the positives among the first R items, for an R of thousands.

    Of two equal scores, the smaller position comes first.

    Args:
      scores: scores of Q queries and N items.
      relations: the positives, one relation after the other.
      depths: R for each relation, int [Q], at most the number of items that a query ranks.
      folds: as in `DirectionLabels`.

    Returns:
      The counts, int64 [relations, Q], and whether the R-th item and the next have equal scores,
      bool [relations, Q].
    """
    queries, rows = scores.shape[0], scores.tile_shape[0]
    counts = np.zeros((len(relations), queries), np.int64)
    tied = np.zeros((len(relations), queries), bool)
    met: np.ndarray | slice = slice(None)
    items = np.arange(scores.shape[1])
    with progress(f"Counting hits of {queries:,} queries", queries, jointly=True) as advance:
        for start in range(0, queries, rows):
            for query, row in enumerate(complete_rows(scores, start // rows), start):
                if folds is not None:
                    met = folds[1] == folds[0][query]
                row, theirs = row[met], items[met]
                rising = np.sort(row)  # Ten times faster than a stable sort of the positions.
                for n, (relation, r) in enumerate(zip(relations, depths, strict=True)):
                    first, tied[n, query] = _take_first(row, rising, r[query])
                    counts[n, query] = np.sum(relation.contains(np.asarray(query), theirs[first]))
                advance(1)
    return counts, tied


def _take_first(row: np.ndarray, rising: np.ndarray, r: int) -> tuple[np.ndarray, bool]:
    """Positions of the `r` largest numbers of a row, and whether the next one equals the last."""
    if r == 0:
        return np.zeros(0, np.int64), False
    smallest = rising[len(rising) - r]
    found = np.flatnonzero(row >= smallest)
    if len(found) == r:
        return found, False
    ahead = row[found] > smallest
    equal = found[~ahead]
    return np.concatenate([found[ahead], equal[: r - ahead.sum()]]), True
