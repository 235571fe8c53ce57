"""Scores by rows: a block of queries with the whole gallery, in memory, from a file or computed.

Everything that is read from scores (positives, ranks, ties, lists, rated pairs) is read from the
same row, so that nothing depends on how two products round.
"""

import abc
import itertools
import os
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from xmodal.evals.labels.positives import Ragged
from xmodal.evals.labels.types import DirectionLabels
from xmodal.evals.reports.results import Rescored

GROUP = 64  # Rows of a product are a multiple of this.
_CHUNK = 1_600_000  # Scores that are read while they are in a processor's cache.
_ROWS = 1024  # More rows save nothing.


def memory_budget() -> int:
    """Returns a quarter of the machine's memory, in bytes: the most for a matrix of scores."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4


class Scores(abc.ABC):
    """Scores of Q queries and N items.

    Attributes:
      shape: (Q, N).
      dtype: type of the scores, float32 or float64.
    """

    shape: tuple[int, int]
    dtype: np.dtype

    @abc.abstractmethod
    def rows(self, queries: np.ndarray) -> np.ndarray:
        """Returns the scores of queries at positions [q] with all items, [q, N]; may be a view."""

    def transpose(self) -> "Scores":
        """Returns the scores of the items as queries."""
        raise NotImplementedError

    def pairs(self, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Returns the scores [P] of single pairs at positions [P]."""
        asked, at = np.unique(queries, return_inverse=True)
        values = np.empty(len(queries), self.dtype)
        for part, rows in self.blocks(asked):
            some = np.flatnonzero((part.start <= at) & (at < part.stop))
            values[some] = rows[at[some] - part.start, items[some]]
        return values

    def best_items(self, depth: int) -> np.ndarray:
        """Returns the best items of every query, see `top_items`, int64 [Q, depth]."""
        every = np.arange(self.shape[0])
        return np.concatenate([top_items(rows, depth) for _, rows in self.blocks(every)])

    def find_scored(self, queries: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Returns which pairs at positions [P] have a score, and not only a rank; bool [P]."""
        return np.ones(len(queries), bool)

    def rounding(self, queries: np.ndarray) -> np.ndarray | None:
        """Returns by how much scores of queries differ from rounding, [q]; None for exact ones."""
        return None

    def rated_scores(self, queries: np.ndarray, items: np.ndarray) -> np.ndarray | None:
        """Returns the scores [P] to compare with ratings; None if those that rank the pairs.

        A reranker ranks by other scores.
        """
        return None

    def describe(self, labels: DirectionLabels) -> Rescored | None:
        """Returns the facts of a direction whose pairs a second stage scored."""
        return None

    def hold(self, budget: int) -> "Scores":
        """Returns scores that are computed once for both directions, in at most `budget` bytes.

        Itself if they take more.
        """
        return self

    @property
    def height(self) -> int:
        """Queries in a block of rows: few, which stay in a processor's cache."""
        return min(max(1, _CHUNK // self.shape[1]), _ROWS)

    def blocks(self, queries: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Yields parts of the ascending `queries`, and the rows of each, valid until the next.

        Rows within one gallery may be overwritten.
        """
        for start in range(0, len(queries), self.height):
            at = slice(start, min(start + self.height, len(queries)))
            yield at, self.rows(queries[at])


class MatrixScores(Scores):
    """Scores from a matrix in memory or on disk, of any float type.

    Rows and columns may be those of other items, in another order.
    """

    def __init__(
        self, matrix: np.ndarray, rows: np.ndarray | None = None, columns: np.ndarray | None = None
    ) -> None:
        """Takes a matrix, and positions in it of the queries [Q] and items [N]; None for all."""
        self._matrix, self._rows, self._columns = matrix, rows, columns
        sizes = zip(matrix.shape, (rows, columns), strict=True)
        queries, items = (size if at is None else len(at) for size, at in sizes)
        self.shape, self.dtype = (queries, items), np.result_type(matrix.dtype, np.float32)

    def rows(self, queries: np.ndarray) -> np.ndarray:
        """See `Scores`."""
        found = self._matrix[as_slice(queries if self._rows is None else self._rows[queries])]
        found = found if self._columns is None else found[:, self._columns]
        if found.flags.c_contiguous and found.dtype == self.dtype:
            return found
        return copy_parts(found, np.empty(found.shape, self.dtype))

    def transpose(self) -> "MatrixScores":
        """See `Scores`."""
        return MatrixScores(self._matrix.T, self._columns, self._rows)


def as_slice(at: np.ndarray) -> np.ndarray | slice:
    """Returns positions [q], as a slice if they follow each other: it gives a view."""
    if len(at) and at[-1] - at[0] == len(at) - 1 and np.all(np.diff(at) == 1):
        return slice(at[0], at[-1] + 1)
    return at


def copy_parts(rows: np.ndarray, into: np.ndarray) -> np.ndarray:
    """Copies rows [q, N]; of a transpose, in parts that stay in a processor's cache."""
    step = into.shape[1] if rows.strides[1] == rows.itemsize else 2 * GROUP
    for start in range(0, into.shape[1], step):
        some = slice(start, start + step)
        into[:, some] = rows[:, some]
    return into


def launch_ahead(launched: Iterable[Any]) -> Iterator[Any]:
    """Yields results on devices, each after the next is launched, so that the devices stay busy."""
    for result, _ in itertools.pairwise(itertools.chain(launched, [None])):
        yield result


def count_not_finite(values: np.ndarray) -> int:
    """Returns the number of rows with a value that is not finite."""
    # A sum is finite if all its terms are, and needs no Boolean array.
    with np.errstate(invalid="ignore"):
        if np.isfinite(np.sum(values, dtype=np.float64)):
            return 0
    return int(np.sum(~np.isfinite(values).all(axis=tuple(range(1, values.ndim)))))


def top_items(rows: np.ndarray, count: int) -> np.ndarray:
    """Returns the best items of each row [q, N], best first, int64 [q, count].

    Items with equal scores keep their order, as in a stable sort. Items of score -inf are not
    listed: -1 follows the last item.
    """
    count = min(count, rows.shape[1])
    if not (count and len(rows)):
        return np.full((len(rows), count), -1)
    # The highest scores of `groups` groups of items: `count` of them bound the `count` best.
    width = max(rows.shape[1] // (8 * count), 1)
    groups = rows.shape[1] // width
    highest = rows[:, : groups * width].reshape(len(rows), width, groups).max(axis=1)
    least = np.partition(highest, groups - count, axis=1)[:, groups - count, None]
    least = np.maximum(least, np.finfo(rows.dtype).min)
    # `nonzero` of two dimensions is slow.
    row, item = np.divmod(np.flatnonzero(rows >= least), rows.shape[1])
    place = np.arange(len(row)) - np.searchsorted(row, np.arange(len(rows)))[row]
    items = np.full((len(rows), max(count, place.max(initial=0) + 1)), -1)
    worse = np.full(items.shape, np.inf, rows.dtype)
    items[row, place], worse[row, place] = item, -rows[row, item]
    order = np.argsort(worse, axis=1, kind="stable")[:, :count]
    return np.take_along_axis(items, order, axis=1)


def draw_similarities(
    scores: Scores, positives: Ragged, count: int, *, exclude_self: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the scores of random positive pairs and of random other pairs, float32 [<= count].

    The same pairs are drawn for the same labels, so that the histograms of two steps are
    comparable. Pairs that a second stage has not scored are left out.

    Args:
      scores: scores of Q queries and N items.
      positives: positives of every query.
      count: largest number of pairs of either kind.
      exclude_self: whether queries and items are one gallery; an item is then not paired with
        itself.
    """
    generator = np.random.default_rng(0)
    rows = np.repeat(np.arange(len(positives.lengths)), positives.lengths)
    chosen = generator.permutation(len(rows))[:count]
    owners, matches = rows[chosen], positives.values[chosen].astype(np.int64)
    scored = scores.find_scored(owners, matches)
    matching = scores.pairs(owners[scored], matches[scored])
    queries = generator.integers(scores.shape[0], size=count)
    items = generator.integers(scores.shape[1], size=count)
    other = ~positives.contains(queries, items) & scores.find_scored(queries, items)
    if exclude_self:
        other &= queries != items
    return matching, scores.pairs(queries[other], items[other])
