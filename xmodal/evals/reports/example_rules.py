"""Rules that select example queries of an evaluation.

Each rule is a condition on the ranks of one direction. "Rank" is that of the best positive,
starting at 1; a query is right by a board if its rank is 1.
"""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from xmodal.evals.labels.definitions import DIRECTIONS
from xmodal.evals.labels.positives import Ragged
from xmodal.evals.labels.types import Board
from xmodal.evals.reports.results import BoardResult, DirectionResult
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
      board: board with the positives.
      queries: int64 [P], ids.
      ranks: int32 [P], items ahead of the best positive.
      others: int32 [P], for "changed" the ranks of the other model.
    """

    rule: str
    note: str
    direction: str
    board: str
    queries: np.ndarray
    ranks: np.ndarray
    others: np.ndarray | None = None

    @property
    def title(self) -> str:
        """The rule with its direction, and its board if the rule does not name it."""
        board = "" if self.board in self.rule else f", {self.board}"
        return f"{self.rule[0].upper()}{self.rule[1:]}: {_ARROWS[self.direction]}{board}"


def pick_examples(
    boards: Sequence[Board],
    results: Sequence[BoardResult],
    count: int,
    other: StoredResults | None = None,
) -> list[Pick]:
    """Returns the queries of every rule that selects any.

    Boards whose queries are compared only with a fold of the gallery are ignored.

    Args:
      boards: the evaluated boards.
      results: their results.
      count: largest number of queries per rule and direction.
      other: results of another model on the same boards.
    """
    theirs = {board.name: board for board in other.results} if other else {}
    picks = []
    for direction in DIRECTIONS:
        ranked = _ranked_boards(boards, results, direction)
        if not ranked:
            continue
        main = _widest(boards, ranked, direction)
        result = ranked[main]
        picks.append(_pick_worst(main, direction, result))
        if main in theirs and direction in theirs[main].directions:
            picks.append(pick_changed(main, direction, result, theirs[main].directions[direction]))
        own = next(iter(ranked))
        for right, wrong in itertools.permutations(ranked, 2):
            if own in (right, wrong):
                picks.append(_pick_disputed(right, wrong, direction, ranked[right], ranked[wrong]))
        picks.append(_pick_tied(main, direction, result))
    return [cut_pick(pick, count) for pick in picks if len(pick.queries)]


def pick_fixed(boards: Sequence[Board], results: Sequence[BoardResult], count: int) -> list[Pick]:
    """Returns evenly spaced queries for every direction, the same for all models on these labels.

    Args:
      boards: the evaluated boards; those whose queries are compared only with a fold of the gallery
        are ignored.
      results: their results.
      count: largest number of queries per direction.
    """
    picks = []
    for direction in DIRECTIONS:
        if ranked := _ranked_boards(boards, results, direction):
            main = _widest(boards, ranked, direction)
            ids, total = ranked[main].query_ids, len(ranked[main].query_ids)
            at = (2 * np.arange(min(count, total)) + 1) * total // (2 * max(min(count, total), 1))
            at = np.argsort(ids)[at]
            picks.append(Pick("fixed", "", direction, main, ids[at], _ranks(ranked[main])[at]))
    return picks


def _ranked_boards(
    boards: Sequence[Board], results: Sequence[BoardResult], direction: str
) -> dict[str, DirectionResult]:
    """The results of a direction by board, for boards whose positives and ranks are known."""
    found = {board.name: board.directions.get(direction) for board in results}
    ranked = {}
    for board in boards:
        result = found[board.name]
        if result is None or result.rank is None or board.directions[direction].folds is not None:
            continue
        if isinstance(board.directions[direction].positives, Ragged):
            ranked[board.name] = result
    return ranked


def _widest(boards: Sequence[Board], ranked: Mapping[str, DirectionResult], direction: str) -> str:
    """The board with the most labels, which calls the fewest right answers wrong."""

    def width(board: Board) -> tuple[int, int]:
        positives = board.directions[direction].positives
        assert isinstance(positives, Ragged)
        return len(ranked[board.name].query_ids), len(positives.values)

    return max((board for board in boards if board.name in ranked), key=width).name


def _pick_worst(board: str, direction: str, result: DirectionResult) -> Pick:
    rank, ids = _ranks(result), result.query_ids
    at = np.flatnonzero(rank > 0)
    at = at[np.lexsort((ids[at], -rank[at]))]
    note = "Queries whose best positive is ranked lowest."
    return Pick("worst rank", note, direction, board, ids[at], rank[at])


def pick_changed(
    board: str, direction: str, ours: DirectionResult, theirs: DirectionResult
) -> Pick:
    """Returns the queries of both models whose ranks changed, by the ratio of the ranks."""
    ids, mine, yours = np.intersect1d(ours.query_ids, theirs.query_ids, return_indices=True)
    if theirs.rank is None:
        return Pick("changed", "", direction, board, ids[:0], ids[:0])
    before, after = theirs.rank[yours], _ranks(ours)[mine]
    change = np.abs(np.log1p(after) - np.log1p(before))
    at = np.flatnonzero(change > 0)
    at = at[np.lexsort((ids[at], -change[at]))]
    note = "Queries with the largest ratio between the ranks of the two models."
    return Pick("changed", note, direction, board, ids[at], after[at], before[at])


def _pick_disputed(
    right: str, wrong: str, direction: str, of_right: DirectionResult, of_wrong: DirectionResult
) -> Pick:
    ids, mine, yours = np.intersect1d(of_right.query_ids, of_wrong.query_ids, return_indices=True)
    down = _ranks(of_wrong)[yours]
    at = np.flatnonzero((_ranks(of_right)[mine] == 0) & (down > 0))
    at = at[np.lexsort((ids[at], -down[at]))]
    note = (
        f"The first item is a positive of {right} but not of {wrong}; ranks are those of {wrong}."
    )
    return Pick(f"right by {right}, wrong by {wrong}", note, direction, wrong, ids[at], down[at])


def _pick_tied(board: str, direction: str, result: DirectionResult) -> Pick:
    tied = np.zeros(len(result.query_ids), bool) if result.tied is None else result.tied
    rank, ids = _ranks(result), result.query_ids
    at = np.flatnonzero(tied)
    at = at[np.lexsort((ids[at], rank[at]))]
    note = "The best positive ties exactly with another item, so its rank depends on the tie rule."
    return Pick("tied", note, direction, board, ids[at], rank[at])


def cut_pick(pick: Pick, count: int) -> Pick:
    """Returns the first queries of a pick."""
    others = None if pick.others is None else pick.others[:count]
    queries, ranks = pick.queries[:count], pick.ranks[:count]
    return dataclasses.replace(pick, queries=queries, ranks=ranks, others=others)


def _ranks(result: DirectionResult) -> np.ndarray:
    assert result.rank is not None
    return result.rank
