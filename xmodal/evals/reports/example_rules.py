"""Rules that select example queries of an evaluation.

Each rule is a condition on the ranks of one direction. "Rank" is that of the best positive,
starting at 1; a query is right by a benchmark if its rank is 1.
"""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from xmodal.evals.labels.definitions import DIRECTIONS
from xmodal.evals.labels.positives import Ragged
from xmodal.evals.labels.types import Benchmark
from xmodal.evals.reports.results import BenchmarkResult, DirectionResult
from xmodal.evals.reports.store import StoredResults

_ARROWS = {"i2t": "image to text", "t2i": "text to image"}
_ARROWS |= {"t2t": "text to text", "i2i": "image to image"}


@dataclasses.dataclass(frozen=True)
class Pick:
    """The queries of one rule and one direction.

    Attributes:
      rule: "worst rank", "changed", "right by A, wrong by B" or "tied".
      note: a sentence about the rule.
      direction: a name in `DIRECTIONS`.
      benchmark: benchmark with the positives.
      queries: int64 [P], ids.
      ranks: int32 [P], items ahead of the best positive.
      others: int32 [P], for "changed" the ranks of the other model.
    """

    rule: str
    note: str
    direction: str
    benchmark: str
    queries: np.ndarray
    ranks: np.ndarray
    others: np.ndarray | None = None

    @property
    def title(self) -> str:
        """The rule with its direction, and its benchmark if the rule does not name it."""
        benchmark = "" if self.benchmark in self.rule else f", {self.benchmark}"
        return f"{self.rule[0].upper()}{self.rule[1:]}: {_ARROWS[self.direction]}{benchmark}"


def pick_examples(
    benchmarks: Sequence[Benchmark],
    results: Sequence[BenchmarkResult],
    count: int,
    other: StoredResults | None = None,
) -> list[Pick]:
    """Returns the queries of every rule that selects any.

    Benchmarks whose queries are compared only with a fold of the gallery are ignored.

    Args:
      benchmarks: the evaluated benchmarks.
      results: their results.
      count: largest number of queries per rule and direction.
      other: results of another model on the same benchmarks.
    """
    theirs = {benchmark.name: benchmark.directions for benchmark in other.results} if other else {}
    picks = []

    def pick(
        rule: str, note: str, benchmark: str, columns: Sequence[Any], chosen: Any, key: Any
    ) -> None:
        """Takes the chosen queries with the smallest keys; columns are ids, ranks and others."""
        at = np.flatnonzero(chosen)
        at = at[np.lexsort((columns[0][at], key[at]))][:count]
        if len(at):
            picks.append(Pick(rule, note, direction, benchmark, *(each[at] for each in columns)))

    for direction in DIRECTIONS:
        ranked = _ranked_benchmarks(benchmarks, results, direction)
        if not ranked:
            continue
        main, own = _widest(benchmarks, ranked, direction), next(iter(ranked))
        ids, rank, tied = ranked[main].query_ids, np.asarray(ranked[main].rank), ranked[main].tied
        note = "Queries whose best positive is ranked lowest."
        pick("worst rank", note, main, (ids, rank), rank > 0, -rank)
        before = theirs.get(main, {}).get(direction)
        if before is not None and before.rank is not None:
            both, mine, yours = np.intersect1d(ids, before.query_ids, return_indices=True)
            ranks = rank[mine], before.rank[yours]
            change = np.abs(np.log1p(ranks[0]) - np.log1p(ranks[1]))
            note = "Queries with the largest ratio between the ranks of the two models."
            pick("changed", note, main, (both, *ranks), change > 0, -change)
        for right, wrong in itertools.permutations(ranked, 2):
            if own in (right, wrong):
                both, *rows = np.intersect1d(
                    ranked[right].query_ids, ranked[wrong].query_ids, return_indices=True
                )
                up = np.asarray(ranked[right].rank)[rows[0]]
                down = np.asarray(ranked[wrong].rank)[rows[1]]
                note = (
                    f"The first item is a positive of {right} but not of {wrong}; ranks are those "
                    f"of {wrong}."
                )
                chosen = (up == 0) & (down > 0)
                pick(
                    f"right by {right}, wrong by {wrong}", note, wrong, (both, down), chosen, -down
                )
        if tied is not None:
            note = (
                "The best positive ties exactly with another item, so its rank depends on the tie "
                "rule."
            )
            pick("tied", note, main, (ids, rank), tied, rank)
    return picks


def pick_fixed(
    benchmarks: Sequence[Benchmark], results: Sequence[BenchmarkResult], count: int
) -> list[Pick]:
    """Returns evenly spaced queries for every direction, the same for all models on these labels.

    Args:
      benchmarks: the evaluated benchmarks; those whose queries are compared only with a fold of the
        gallery are ignored.
      results: their results.
      count: largest number of queries per direction.
    """
    picks = []
    for direction in DIRECTIONS:
        if ranked := _ranked_benchmarks(benchmarks, results, direction):
            main = _widest(benchmarks, ranked, direction)
            ids, total = ranked[main].query_ids, len(ranked[main].query_ids)
            at = (2 * np.arange(min(count, total)) + 1) * total // (2 * max(min(count, total), 1))
            at = np.argsort(ids)[at]
            picks.append(
                Pick("fixed", "", direction, main, ids[at], np.asarray(ranked[main].rank)[at])
            )
    return picks


def _ranked_benchmarks(
    benchmarks: Sequence[Benchmark], results: Sequence[BenchmarkResult], direction: str
) -> dict[str, DirectionResult]:
    """The results of a direction by benchmark, where positives and ranks are known."""
    found = {benchmark.name: benchmark.directions.get(direction) for benchmark in results}
    return {
        benchmark.name: result
        for benchmark in benchmarks
        if (result := found[benchmark.name]) is not None
        and result.rank is not None
        and benchmark.directions[direction].folds is None
        and isinstance(benchmark.directions[direction].positives, Ragged)
    }


def _widest(
    benchmarks: Sequence[Benchmark], ranked: Mapping[str, DirectionResult], direction: str
) -> str:
    """The benchmark with the most labels, which calls the fewest right answers wrong."""

    def width(benchmark: Benchmark) -> tuple[int, int]:
        positives = cast(Ragged, benchmark.directions[direction].positives)
        return len(ranked[benchmark.name].query_ids), len(positives.values)

    return max((benchmark for benchmark in benchmarks if benchmark.name in ranked), key=width).name
