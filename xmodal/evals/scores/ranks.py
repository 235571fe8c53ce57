"""Exact ranks, ties, tops of lists and scores of rated pairs, from the same rows of scores."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from xmodal.core.progress import progress
from xmodal.evals.labels.positives import Ragged, Relation
from xmodal.evals.labels.types import DirectionLabels
from xmodal.evals.reports.metrics import (
    compute_map_at_r,
    compute_r_precision,
    compute_recall_values,
)
from xmodal.evals.reports.results import Rescored
from xmodal.evals.scores.score_rows import (
    Scores,
    memory_budget,
    take_rows,
    top_items,
)

# Metrics of the top of a list, and their functions.
LIST_METRICS = {
    "map@r": compute_map_at_r,
    "r_precision": compute_r_precision,
    "pmrp": compute_r_precision,
}
Pairs = Sequence[tuple[np.ndarray, np.ndarray]]

_CHUNK = 800_000  # Scores that are compared while they are in a processor's cache.
_SAMPLE = 16  # One of as many chunks shows how many ranks rounding decides.


@dataclasses.dataclass(frozen=True)
class RankedQueries:
    """Results of one direction, with one row per query in the gallery of queries.

    Attributes:
      rank: int32 [Q], items ahead of the best positive; None if not known.
      tied: bool [Q], whether an item that is not a positive has the same score as the best
        positive; if no rank is needed, whether the R-th item and the next have equal scores. Then
        the order of the items decides. None if not known.
      rounded: share of the ranks, of some queries, that scores decide which differ by less than
        float32's rounding; 0 if scores are exact.
      values: metric, but for the median rank -> float64 [Q] in percent; arbitrary if a query has no
        positive.
      missing: metric -> why it could not be computed.
      rescored: facts of the second stage, if one ranked the items.
    """

    rank: np.ndarray | None
    tied: np.ndarray | None
    rounded: float = 0.0
    values: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    missing: Mapping[str, str] = dataclasses.field(default_factory=dict)
    rescored: Rescored | None = None


def rank_directions(
    scores: Scores,
    forward: Sequence[DirectionLabels],
    backward: Sequence[DirectionLabels] = (),
    *,
    rated: Pairs = (),
    exclude_self: bool = False,
    budget: int | None = None,
) -> tuple[list[RankedQueries], list[RankedQueries], list[np.ndarray]]:
    """Answers all directions between two galleries, and reads the scores of rated pairs.

    The order is a stable descending sort: of two equal scores the smaller position comes first.

    Args:
      scores: scores of Q queries and N items.
      forward: labels of the queries.
      backward: labels of the items, which then rank the queries.
      rated: (queries, items), int [P] each.
      exclude_self: whether queries and items are one gallery, in which no item is compared with
        itself; `backward` is then empty.
      budget: bytes that the scores may take, see `memory_budget`; if they take more, they are
        computed for each direction.
    """
    own = [x for pairs in rated if (x := scores.rated_scores(*pairs)) is not None]
    if forward and (exclude_self or backward):
        scores = scores.hold(memory_budget() if budget is None else budget)
    found, read = _read_rows(scores, forward, () if own else rated, exclude_self=exclude_self)
    turned = rank_queries(scores.transpose(), backward) if backward else []
    return found, turned, own or read


def rank_queries(scores: Scores, directions: Sequence[DirectionLabels]) -> list[RankedQueries]:
    """Answers directions of the same queries and items, see `rank_directions`."""
    return _read_rows(scores, directions)[0]


def _read_rows(
    scores: Scores,
    directions: Sequence[DirectionLabels],
    rated: Pairs = (),
    *,
    exclude_self: bool = False,
) -> tuple[list[RankedQueries], list[np.ndarray]]:
    """Answers directions, and reads the scores of `rated` pairs from the same rows."""
    if not (directions or rated):
        return [], []
    answers = [_Answer(labels, scores.shape) for labels in directions]
    by_folds: dict[int, list[_Answer]] = {}
    for answer in answers:
        by_folds.setdefault(id(answer.labels.folds), []).append(answer)
    values = [np.empty(len(queries), scores.dtype) for queries, _ in rated]
    asking = [np.flatnonzero(has_positives(labels)) for labels in directions]
    asked = np.unique(np.concatenate([*asking, *(queries for queries, _ in rated)]))
    height = max(1, _CHUNK // scores.shape[1])
    # One array for all comparisons: systems take long to clear fresh memory.
    flags = np.empty((height, scores.shape[1]), bool)
    what = f"Ranking {scores.shape[1]:,} items for {len(asked):,} queries"
    with progress(what, len(asked), jointly=True) as advance:
        for part, block in scores.blocks(asked):
            at = asked[part]
            for (queries, items), read in zip(rated, values, strict=True):
                some = np.flatnonzero((at[0] <= queries) & (queries <= at[-1]))
                read[some] = block[np.searchsorted(at, queries[some]), items[some]]
            for number, start in enumerate(range(0, len(block), height)):
                queries, rows = at[start : start + height], block[start : start + height]
                rounding = None if number % _SAMPLE else scores.rounding(queries)
                if exclude_self:
                    rows[np.arange(len(rows)), queries] = -np.inf
                for group in by_folds.values():
                    chunk = _Chunk(queries, rows, rounding, flags, group)
                    for answer in group:
                        answer.add(chunk)
            advance(len(block))
    found = [answer.result(scores.describe(answer.labels)) for answer in answers]
    return found, values


class _Chunk:
    """Rows of some queries, as several label sets of the same folds read them.

    Attributes:
      queries: int [q], positions.
      rows: scores [q, N]; -inf for items of other folds than the query's.
      rounding: rounding of the scores, [q], or None.
      lists: int64 [q, depth], the best items that any label set reads, best first, and -1.
    """

    def __init__(
        self,
        queries: np.ndarray,
        rows: np.ndarray,
        rounding: np.ndarray | None,
        flags: np.ndarray,
        group: Sequence["_Answer"],
    ) -> None:
        """Takes rows; `flags`, bool [>= q, N], are overwritten."""
        folds = group[0].labels.folds
        if folds is not None:
            rows = np.where(folds[0][queries][:, None] == folds[1], rows, -np.inf)
        self.queries, self.rows, self.rounding, self._flags = queries, rows, rounding, flags
        depths = np.max([answer.depths[queries] for answer in group], axis=0)
        self.lists = np.full((len(rows), depths.max(initial=1)), -1)
        deep = np.flatnonzero(depths)
        top = top_items(take_rows(rows, deep), self.lists.shape[1])
        self.lists[deep, : top.shape[1]] = top
        self._limits = np.full(len(rows), np.nan, rows.dtype)
        self._counts = np.zeros((2, len(rows)), np.int64)

    def count(self, limits: np.ndarray) -> np.ndarray:
        """Returns how many scores are above and at a limit of each row, int64 [2, q].

        Label sets often have the same best positive: its scores are counted once.
        """
        new = np.flatnonzero(limits != self._limits)
        rows = take_rows(self.rows, new)
        for counts, compare in zip(self._counts, (np.greater, np.equal), strict=True):
            counts[new] = self._count(compare, rows, limits[new])
        self._limits = limits
        return self._counts.copy()

    def count_near(self, limits: np.ndarray) -> np.ndarray:
        """Returns how many scores rounding could have moved to a limit of each row, int64 [q]."""
        above = self._count(np.greater, self.rows, limits + self.rounding)
        return self._count(np.greater_equal, self.rows, limits - self.rounding) - above

    def _count(self, compare: np.ufunc, rows: np.ndarray, limits: np.ndarray) -> np.ndarray:
        true = compare(rows, limits[:, None], out=self._flags[: len(rows)])
        # Faster than `count_nonzero` with an axis.
        return np.bitwise_count(np.packbits(true, axis=1)).sum(axis=1, dtype=np.int64)


class _Answer:
    """Results of one direction, filled by rows.

    Attributes:
      labels: labels of the direction.
      depths: int [Q], how many items of a query's list are read.
    """

    def __init__(self, labels: DirectionLabels, shape: tuple[int, int]) -> None:
        self.labels, (queries, self._items) = labels, shape
        self._values = {
            metric: np.zeros(queries) for metric in labels.metrics if metric in LIST_METRICS
        }
        deepest = find_deepest(labels) if self._values else np.zeros(queries, int)
        self.depths = deepest + (deepest > 0)
        self._has_rank = len(self._values) < len(labels.metrics)
        self._rank = np.full(queries, self._items, np.int32)
        self._tied, self._rounded = np.zeros(queries, bool), list[bool]()

    def add(self, chunk: _Chunk) -> None:
        """Adds rows of queries."""
        for metric, values in self._values.items():
            values[chunk.queries] = compute_list_values(
                self.labels, chunk.lists, chunk.queries, metric
            )
        if self._has_rank:
            self._rank_best(chunk)
        else:
            self._find_cuts(chunk)

    def _rank_best(self, chunk: _Chunk) -> None:
        """Ranks the best positives, and finds items with the same scores."""
        queries, rows = chunk.queries, chunk.rows
        assert isinstance(self.labels.positives, Ragged), "ranks need lists of positives"
        row, items = self.labels.positives.expand(queries)
        scores, best = rows[row, items], np.full(len(rows), -np.inf, rows.dtype)
        np.maximum.at(best, row, scores)
        found, is_best = best > -np.inf, scores == best[row]
        ahead, equal = chunk.count(best)
        tied = found & (equal > np.bincount(row[is_best], minlength=len(rows)))
        if tied.any():
            first = np.full(len(rows), self._items)
            np.minimum.at(first, row[is_best], items[is_best])
            before = np.arange(self._items) < first[tied][:, None]
            ahead[tied] += np.sum((rows[tied] == best[tied, None]) & before, axis=1)
        # All positives of a query may be outside the gallery: it counts as a miss.
        self._rank[queries[found]] = ahead[found]
        self._tied[queries] = tied
        if chunk.rounding is not None:
            self._rounded += (chunk.count_near(best) > equal)[found].tolist()

    def _find_cuts(self, chunk: _Chunk) -> None:
        """Finds queries whose R-th item has the same score as the next."""
        for relation in self.labels.relations:
            r = compute_r(self.labels, relation)[chunk.queries]
            at = np.stack([np.maximum(r - 1, 0), r], axis=1)
            ends = np.take_along_axis(chunk.lists, at, axis=1)
            last, following = np.take_along_axis(chunk.rows, ends, axis=1).T
            self._tied[chunk.queries] |= (r > 0) & (ends[:, 1] >= 0) & (last == following)

    def result(self, rescored: Rescored | None) -> RankedQueries:
        """Returns the results of all rows, with the facts of their second stage."""
        rank, values = self._rank if self._has_rank else None, self._values
        if rank is not None:
            values = compute_recall_values(rank, self.labels.metrics) | values
        rounded = float(np.mean(self._rounded)) if self._rounded else 0.0
        return RankedQueries(rank, self._tied, rounded, values, rescored=rescored)


def has_positives(labels: DirectionLabels) -> np.ndarray:
    """Returns which queries have a positive, bool [Q]."""
    return np.any([_count(labels, relation) > 0 for relation in labels.relations], axis=0)


def compute_list_values(
    labels: DirectionLabels, lists: np.ndarray, rows: np.ndarray, metric: str
) -> np.ndarray:
    """Returns a metric of `LIST_METRICS` from the tops of lists, float64 [P] in percent.

    Args:
      labels: positives of the direction.
      lists: int [P, depth], at least R items by descending score, -1 after the last.
      rows: int [P], the queries.
      metric: its name.
    """
    values = []
    for relation in labels.relations:
        r = compute_r(labels, relation)[rows]
        hits = relation.contains(rows[:, None], lists)
        values.append(LIST_METRICS[metric](hits, np.maximum(r, 1)))
    return 100.0 * np.mean(values, axis=0)


def compute_r(labels: DirectionLabels, relation: Ragged | Relation) -> np.ndarray:
    """Returns R of every query, the number of its positives up to the cap; int64 [Q]."""
    count = _count(labels, relation)
    return count if labels.cap is None else np.minimum(count, labels.cap)


def find_deepest(labels: DirectionLabels) -> np.ndarray:
    """Returns the largest R of every query among its relations, int64 [Q]."""
    return np.max([compute_r(labels, relation) for relation in labels.relations], axis=0)


def _count(labels: DirectionLabels, relation: Ragged | Relation) -> np.ndarray:
    return relation.lengths + (0 if labels.unreachable is None else labels.unreachable)
