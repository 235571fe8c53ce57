"""Exact ranks, ties, tops of lists and scores of rated pairs, from the same rows of scores."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from xmodal.core.progress import progress
from xmodal.evals.labels.positives import Ragged, Relation
from xmodal.evals.labels.types import DirectionLabels
from xmodal.evals.reports.metrics import compute_map_at_r, compute_r_precision
from xmodal.evals.scores.score_rows import (
    PairReader,
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

_CHUNK = 64  # Rows that are compared while they are in a processor's cache.
_SAMPLE = 8  # One of as many chunks shows how many ranks rounding decides.


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
      values: metric of `LIST_METRICS` or recall -> float64 [Q] in percent; arbitrary if a query
        has no positive.
      missing: metric -> why it could not be computed.
    """

    rank: np.ndarray | None
    tied: np.ndarray | None
    rounded: float = 0.0
    values: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    missing: Mapping[str, str] = dataclasses.field(default_factory=dict)


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
      rated: see `read_rows`.
      exclude_self: whether queries and items are one gallery, in which no item is compared with
        itself; `backward` is then empty.
      budget: bytes that the matrix of scores may take, see `memory_budget`; a larger one is
        computed by blocks of rows, for each direction.
    """
    if forward and (exclude_self or backward):
        scores = scores.hold(memory_budget() if budget is None else budget)
    found, values = read_rows(scores, forward, rated, exclude_self=exclude_self)
    return found, rank_queries(scores.transpose(), backward), values


def rank_queries(scores: Scores, directions: Sequence[DirectionLabels]) -> list[RankedQueries]:
    """Answers directions of the same queries and items, see `rank_directions`."""
    return read_rows(scores, directions)[0]


def read_rows(
    scores: Scores,
    directions: Sequence[DirectionLabels],
    rated: Pairs = (),
    *,
    exclude_self: bool = False,
) -> tuple[list[RankedQueries], list[np.ndarray]]:
    """Answers directions, and returns the scores of `rated` pairs of queries and items.

    `rated`: (queries, items), int [P] each; all are read from the same rows as the ranks.
    """
    if not (directions or rated):
        return [], []
    answers = [_Answer(labels, scores.shape) for labels in directions]
    readers = [PairReader(*pairs, scores.dtype) for pairs in rated]
    is_asked = np.zeros(scores.shape[0], bool)
    for labels in directions:
        is_asked |= has_positives(labels)
    for reader in readers:
        is_asked[reader.queries] = True
    asked = np.flatnonzero(is_asked)
    what = f"Ranking {scores.shape[1]:,} items for {len(asked):,} queries"
    # Fresh memory for every comparison takes ten times as long as the comparison.
    flags = np.empty((_CHUNK, scores.shape[1]), bool)
    with progress(what, len(asked), jointly=True) as advance:
        for part, block in scores.blocks(asked):
            for number, start in enumerate(range(0, len(block), _CHUNK)):
                some = slice(start, start + _CHUNK)
                queries, rows = asked[part][some], block[some]
                rounding = None if number % _SAMPLE else scores.rounding(queries)
                for reader in readers:
                    reader.read(queries, rows)
                own = np.arange(len(rows)), queries
                if exclude_self:
                    rows = np.require(rows, requirements="W")
                    kept, rows[own] = rows[own], -np.inf
                chunk = _Chunk(queries, rows, rounding, flags)
                depths = [x.depth(queries) for x in answers if x.labels.folds is None]
                lists = top_items(rows, max(depths, default=0))
                for answer in answers:
                    answer.add(chunk, lists)
                if exclude_self:
                    rows[own] = kept
            advance(len(block))
    return [answer.result() for answer in answers], [reader.values for reader in readers]


class _Chunk:
    """Rows [q, N] of queries at positions [q], and the rounding [q] of their scores or None.

    `flags`: bool [>= q, N], overwritten.
    """

    def __init__(
        self,
        queries: np.ndarray,
        rows: np.ndarray,
        rounding: np.ndarray | None,
        flags: np.ndarray,
    ) -> None:
        self.queries, self.rows, self.rounding, self._flags = queries, rows, rounding, flags
        self._limits = np.full(len(rows), np.nan, rows.dtype)
        self._counts = np.zeros((2, len(rows)), np.int64)

    def in_folds(self, folds: tuple[np.ndarray, np.ndarray]) -> "_Chunk":
        """Returns rows in which items of other folds than the query's are -inf."""
        rows = np.where(folds[0][self.queries][:, None] == folds[1], self.rows, -np.inf)
        return _Chunk(self.queries, rows, self.rounding, self._flags)

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

    def count_near(self, limits: np.ndarray, rounding: np.ndarray) -> np.ndarray:
        """Returns how many scores rounding could have moved to a limit of each row, int64 [q]."""
        above = self._count(np.greater, self.rows, limits + rounding)
        return self._count(np.greater_equal, self.rows, limits - rounding) - above

    def _count(self, compare: np.ufunc, rows: np.ndarray, limits: np.ndarray) -> np.ndarray:
        true = compare(rows, limits[:, None], out=self._flags[: len(rows)])
        # Faster than `count_nonzero` with an axis.
        return np.bitwise_count(np.packbits(true, axis=1)).sum(axis=1, dtype=np.int64)


class _Answer:
    """Results of one direction, filled by rows."""

    def __init__(self, labels: DirectionLabels, shape: tuple[int, int]) -> None:
        self.labels, (queries, self._items) = labels, shape
        self._listed = [metric for metric in labels.metrics if metric in LIST_METRICS]
        self._has_rank = len(self._listed) < len(labels.metrics)
        self._rank = np.full(queries, self._items, np.int32)
        self._tied, self._rounded = np.zeros(queries, bool), list[bool]()
        self._values = {metric: np.zeros(queries) for metric in self._listed}
        self._r = [compute_r(labels, relation) for relation in labels.relations]

    def depth(self, queries: np.ndarray) -> int:
        """Returns how many items of the lists of queries at positions [q] are read."""
        return 1 + max(int(r[queries].max()) for r in self._r) if self._listed else 0

    def add(self, chunk: _Chunk, lists: np.ndarray) -> None:
        """Adds rows of queries, and the best items of the whole gallery in each, [q, depth]."""
        depth = self.depth(chunk.queries)
        if self.labels.folds is not None:
            chunk = chunk.in_folds(self.labels.folds)
            lists = top_items(chunk.rows, depth)
        if self._has_rank:
            self._count(chunk)
        if self._listed:
            self._read_lists(chunk.queries, chunk.rows, lists[:, :depth])

    def _count(self, chunk: _Chunk) -> None:
        queries, rows = chunk.queries, chunk.rows
        row, items = listed_positives(self.labels).expand(queries)
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
            near = chunk.count_near(best, chunk.rounding)
            self._rounded += (near > equal)[found].tolist()

    def _read_lists(self, queries: np.ndarray, rows: np.ndarray, lists: np.ndarray) -> None:
        for metric in self._listed:
            self._values[metric][queries] = compute_list_values(self.labels, lists, queries, metric)
        if self._has_rank:
            return
        for r in (each[queries] for each in self._r):
            at = np.stack([np.maximum(r - 1, 0), np.minimum(r, lists.shape[1] - 1)], axis=1)
            ends = np.take_along_axis(lists, at, axis=1)
            last, following = np.take_along_axis(rows, ends, axis=1).T
            cut = (r > 0) & (r < lists.shape[1]) & (ends[:, 1] >= 0)
            self._tied[queries] |= cut & (last == following)

    def result(self) -> RankedQueries:
        """Returns the results of all rows."""
        rank = self._rank if self._has_rank else None
        rounded = float(np.mean(self._rounded)) if self._rounded else 0.0
        return RankedQueries(rank, self._tied, rounded, self._values)


def listed_positives(labels: DirectionLabels) -> Ragged:
    """Returns the positives of a direction that needs ranks, which are always lists."""
    assert isinstance(labels.positives, Ragged)
    return labels.positives


def has_positives(labels: DirectionLabels) -> np.ndarray:
    """Returns which queries have a positive, bool [Q]."""
    return np.any([_count(labels, relation) > 0 for relation in labels.relations], axis=0)


def compute_list_values(
    labels: DirectionLabels, lists: np.ndarray, rows: np.ndarray, metric: str
) -> np.ndarray:
    """Returns a metric of `LIST_METRICS` from the tops of lists, float64 [P] in percent.

    Args:
      labels: positives of the direction.
      lists: int [P, depth], items by descending score, -1 after the last; items that are missing at
        the end are no positives.
      rows: int [P], the queries.
      metric: its name.
    """
    values = []
    for relation in labels.relations:
        r = compute_r(labels, relation)[rows]
        lacking = max(0, int(r.max(initial=0)) - lists.shape[1])
        whole = np.pad(lists, [(0, 0), (0, lacking)], constant_values=-1)
        hits = relation.contains(rows[:, None], whole)
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
