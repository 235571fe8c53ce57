"""Exact ranks, ties, tops of lists and scores of rated pairs, from the same rows of scores."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xmodal.core.progress import progress
from xmodal.evals.labels.positives import Ragged, Relation
from xmodal.evals.labels.types import DirectionLabels
from xmodal.evals.reports import metrics
from xmodal.evals.reports.results import Rescored
from xmodal.evals.scores.score_rows import Scores, as_slice, memory_budget, top_items

# Metrics of the top of a list, and their functions.
_LIST_METRICS = {
    "map@r": metrics.compute_map_at_r,
    "r_precision": metrics.compute_r_precision,
    "pmrp": metrics.compute_r_precision,
}
Pairs = Sequence[tuple[np.ndarray, np.ndarray]]

_FLAGS = 255 * 8  # Counted together.
_SAMPLE = 16  # Every 16th chunk is checked for ranks that rounding decides.


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
    found, read = _read_rows(scores, forward, () if own else rated, exclude_self)
    turned = _read_rows(scores.transpose(), backward, (), False)[0] if backward else []
    return found, turned, own or read


def _read_rows(
    scores: Scores, directions: Sequence[DirectionLabels], rated: Pairs, exclude_self: bool
) -> tuple[list[RankedQueries], list[np.ndarray]]:
    """Answers directions, and reads the scores of `rated` pairs from the same rows."""
    if not (directions or rated):
        return [], []
    answers = [_Answer(labels, scores.shape) for labels in directions]
    by_folds: dict[int, list[_Answer]] = {}
    for answer in answers:
        by_folds.setdefault(id(answer.labels.folds), []).append(answer)
    values = [np.empty(len(queries), scores.dtype) for queries, _ in rated]
    orders = [np.argsort(queries) for queries, _ in rated]
    asking = [np.flatnonzero(has_positives(labels)) for labels in directions]
    asked = np.unique(np.concatenate([*asking, *(queries for queries, _ in rated)]))
    # One array for all comparisons: systems take long to clear fresh memory.
    flags = np.empty((scores.height, -(-scores.shape[1] // _FLAGS) * _FLAGS), bool)
    what = f"Ranking {scores.shape[1]:,} items for {len(asked):,} queries"
    with progress(what, len(asked), jointly=True) as advance:
        for number, (part, rows) in enumerate(scores.blocks(asked)):
            at = asked[part]
            for (queries, items), order, read in zip(rated, orders, values, strict=True):
                some = order[slice(*np.searchsorted(queries, [at[0], at[-1] + 1], sorter=order))]
                read[some] = rows[np.searchsorted(at, queries[some]), items[some]]
            rounding = None if number % _SAMPLE else scores.rounding(at)
            if exclude_self:
                rows[np.arange(len(rows)), at] = -np.inf
            for group in by_folds.values():
                chunk = _Chunk(at, rows, flags, group)
                for answer in group:
                    answer.add(chunk, rounding)
            advance(len(rows))
    found = [answer.result(scores.describe(answer.labels)) for answer in answers]
    return found, values


class _Chunk:
    """Rows of some queries, as several label sets of the same folds read them.

    Attributes:
      queries: int [q], positions.
      first: position of the first of n items.
      rows: scores [q, n]; -inf for items of other folds than the query's.
      lists: int64 [q, depth], the best items that any label set reads, best first, and -1.
      listed: scores of these items, and NaN.
    """

    def __init__(
        self, queries: np.ndarray, rows: np.ndarray, flags: np.ndarray, group: list["_Answer"]
    ) -> None:
        """Takes rows; `flags`, bool [>= q, >= N], are overwritten."""
        folds, self.first = group[0].labels.folds, 0
        if folds is not None:
            own = folds[0][queries]
            some = np.flatnonzero((own.min() <= folds[1]) & (folds[1] <= own.max()))
            columns = slice(some[0], some[-1] + 1) if len(some) else slice(None)
            self.first = columns.start or 0
            rows = np.where(own[:, None] == folds[1][columns], rows[:, columns], -np.inf)
        self.queries, self.rows, self._flags = queries, rows, flags
        depth = max(int(answer.depths[queries].max()) for answer in group)
        top = top_items(rows, depth)
        found = np.pad(top, ((0, 0), (0, depth - top.shape[1])), constant_values=-1)
        self.lists = np.where(found < 0, -1, found + self.first)
        self.listed = np.where(found < 0, np.nan, np.take_along_axis(rows, found, axis=1))
        self._limits = np.full(len(rows), -np.inf, rows.dtype)
        self._counts = np.zeros((2, len(rows)), np.int64)

    def count(self, limits: np.ndarray) -> np.ndarray:
        """Returns how many scores are above and at a limit of each row, int64 [2, q].

        Label sets often have the same best positive: its scores are counted once. Nothing is
        counted for a limit of -inf, where none is found.
        """
        new = np.flatnonzero((limits != self._limits) & (limits > -np.inf))
        rows = self.rows[as_slice(new)]
        for counts, compare in zip(self._counts, (np.greater, np.equal), strict=True):
            counts[new] = self._count(compare, rows, limits[new])
        self._limits[new] = limits[new]
        return self._counts.copy()

    def count_near(self, limits: np.ndarray, rounding: np.ndarray) -> np.ndarray:
        """Returns how many scores rounding could have moved to a limit of each row, int64 [q]."""
        above = self._count(np.greater, self.rows, limits + rounding)
        return self._count(np.greater_equal, self.rows, limits - rounding) - above

    def _count(self, compare: np.ufunc, rows: np.ndarray, limits: np.ndarray) -> np.ndarray:
        (height, width), sums = rows.shape, -(-rows.shape[1] // _FLAGS)
        flags = self._flags[:height, : sums * _FLAGS]
        compare(rows, limits[:, None], out=flags[:, :width])
        flags[:, width:] = False
        # Faster than `count_nonzero`: sums of up to 255 words of 8 flags do not carry.
        found = flags.view(np.uint64).reshape(height, sums, _FLAGS // 8).sum(axis=2)
        return found.view(np.uint8).sum(axis=1, dtype=np.int64)


class _Answer:
    """Results of one direction, filled by rows.

    Attributes:
      labels: labels of the direction.
      depths: int [Q], how many items of a query's list are read.
    """

    def __init__(self, labels: DirectionLabels, shape: tuple[int, int]) -> None:
        self.labels, (queries, self._items) = labels, shape
        self._values = {name: np.zeros(queries) for name in labels.metrics if reads_list(name)}
        # mAP sorts the whole gallery, but only for queries with a positive.
        every = [find_depth(labels, x, self._items) for x in self._values if x != metrics.MAP]
        deepest = np.max([find_deepest(labels) * bool(self._values), *every], axis=0)
        self.depths = deepest + (deepest > 0)
        named = ((name, find_cutoff(name)) for name in self._values)
        self._ideals = {name: ideal_dcg(labels, cutoff) for name, cutoff in named if cutoff}
        self._has_rank = len(self._values) < len(labels.metrics)
        self._rank = np.full(queries, self._items, np.int32)
        self._tied, self._rounded = np.zeros(queries, bool), list[bool]()

    def add(self, chunk: _Chunk, rounding: np.ndarray | None) -> None:
        """Adds rows of queries, and `rounding` of their scores [q] if it is to be counted."""
        queries = chunk.queries
        for relation in self.labels.relations if self._values else ():
            r = compute_r(self.labels, relation)[queries]
            hits = relation.contains(queries[:, None], chunk.lists)
            for metric in self._values.keys() & _LIST_METRICS.keys():
                self._values[metric][queries] += _LIST_METRICS[metric](hits, np.maximum(r, 1))
            if not self._has_rank:  # Is the R-th item tied with the next?
                ends = np.stack([np.maximum(r - 1, 0), r], axis=1)
                last, following = np.take_along_axis(chunk.listed, ends, axis=1).T
                self._tied[queries] |= (r > 0) & (last == following)
        positives: Any = self.labels.positives
        if metrics.MAP in self._values:
            asked = self.depths[queries] > 0
            order, some = top_items(chunk.rows[asked], self._items), queries[asked]
            hits = positives.contains(some[:, None], np.where(order < 0, -1, order + chunk.first))
            average = metrics.compute_map(hits, compute_r(self.labels, positives)[some])
            self._values[metrics.MAP][some] = average
        for metric, ideal in self._ideals.items():
            found = positives.find(queries[:, None], chunk.lists[:, : find_cutoff(metric)])
            gains = np.where(found < 0, 0.0, self.labels.grades[found])
            dcg = gains @ metrics.compute_discounts(gains.shape[1])
            self._values[metric][queries] = dcg / np.maximum(ideal[queries], 1e-300)
        if self._has_rank:
            self._rank_best(chunk, rounding)

    def _rank_best(self, chunk: _Chunk, rounding: np.ndarray | None) -> None:
        """Ranks the best positives, and finds items with the same scores."""
        queries, rows = chunk.queries, chunk.rows
        assert isinstance(self.labels.positives, Ragged), "ranks need lists of positives"
        row, items = self.labels.positives.expand(queries)
        items = items - chunk.first
        inside = (items >= 0) & (items < rows.shape[1])
        row, items = row[inside], items[inside]
        scores, best = rows[row, items], np.full(len(rows), -np.inf, rows.dtype)
        np.maximum.at(best, row, scores)
        found, is_best = best > -np.inf, scores == best[row]
        ahead, equal = chunk.count(best)
        tied = found & (equal > np.bincount(row[is_best], minlength=len(rows)))
        if tied.any():
            first = np.full(len(rows), self._items)
            np.minimum.at(first, row[is_best], items[is_best])
            before = np.arange(rows.shape[1]) < first[tied][:, None]
            ahead[tied] += np.sum((rows[tied] == best[tied, None]) & before, axis=1)
        # All positives of a query may be outside the gallery: it counts as a miss.
        self._rank[queries[found]] = ahead[found]
        self._tied[queries] = tied
        if rounding is not None:
            self._rounded += (chunk.count_near(best, rounding) > equal)[found].tolist()

    def result(self, rescored: Rescored | None) -> RankedQueries:
        """Returns the results of all rows, with the facts of their second stage."""
        rank, relations = self._rank if self._has_rank else None, len(self.labels.relations)
        values = {metric: 100.0 * (sums / relations) for metric, sums in self._values.items()}
        if rank is not None:
            values = metrics.compute_recall_values(rank, self.labels.metrics) | values
        rounded = float(np.mean(self._rounded)) if self._rounded else 0.0
        return RankedQueries(rank, self._tied, rounded, values, rescored=rescored)


def reads_list(metric: str) -> bool:
    """Returns whether a metric reads the first items of a list, and not only the best rank."""
    return metric == metrics.MAP or metric in _LIST_METRICS or bool(find_cutoff(metric))


def find_cutoff(metric: str) -> int:
    """Returns the K of nDCG@K; 0 for other metrics."""
    return int(metric.removeprefix(metrics.NDCG)) if metric.startswith(metrics.NDCG) else 0


def find_depth(labels: DirectionLabels, metric: str, items: int) -> np.ndarray:
    """Returns how many of N items determine a metric that reads lists; int64 [Q]."""
    deepest = find_deepest(labels)
    depth = items if metric == metrics.MAP else find_cutoff(metric) or deepest
    return np.minimum(depth, items) * (deepest > 0)


def ideal_dcg(labels: DirectionLabels, cutoff: int) -> np.ndarray:
    """Returns the discounted cumulative gain of the best first K items; float64 [Q]."""
    positives: Any = labels.positives
    rows = np.repeat(np.arange(len(positives.lengths)), positives.lengths)
    best = labels.grades[np.lexsort((-labels.grades, rows))]
    place = np.arange(len(rows)) - positives.offsets[rows]
    discounts = np.append(metrics.compute_discounts(cutoff), 0.0)[np.minimum(place, cutoff)]
    return np.bincount(rows, best * discounts, len(positives.lengths))


def has_positives(labels: DirectionLabels) -> np.ndarray:
    """Returns which queries have a positive, bool [Q]."""
    return find_deepest(labels) > 0


def compute_r(labels: DirectionLabels, relation: Ragged | Relation) -> np.ndarray:
    """Returns R of every query, the number of its positives up to the cap; int64 [Q]."""
    count = relation.lengths + (0 if labels.unreachable is None else labels.unreachable)
    return count if labels.cap is None else np.minimum(count, labels.cap)


def find_deepest(labels: DirectionLabels) -> np.ndarray:
    """Returns the largest R of every query among its relations, int64 [Q]."""
    return np.max([compute_r(labels, relation) for relation in labels.relations], axis=0)
