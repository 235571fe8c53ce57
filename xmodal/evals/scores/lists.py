"""Answers directions from ranked lists; truncation leaves some metrics undetermined.

The candidates of a second stage are such lists.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from xmodal.core.errors import UserError
from xmodal.evals.labels.definitions import DIRECTIONS, KINDS
from xmodal.evals.labels.ids import Positions
from xmodal.evals.labels.positives import Ragged
from xmodal.evals.labels.types import DirectionLabels, Labels
from xmodal.evals.reports.metrics import RECALL
from xmodal.evals.reports.results import Rescored
from xmodal.evals.scores.ranks import (
    LIST_METRICS,
    RankedQueries,
    find_deepest,
    has_positives,
    rank_queries,
)
from xmodal.evals.scores.rerank import describe_candidates
from xmodal.evals.scores.score_files import hash_arrays
from xmodal.evals.scores.score_rows import Scores
from xmodal.evals.scores.sources import Candidates, RankedLists

_DIGITS = 12  # Digits of the hash that distinguishes candidates.


class ListedScores(Scores):
    """Scores that rank the items of lists: minus their places; -inf for items that are not listed.

    Attributes:
      lists: items of every query, best first; empty if a query has no list.
    """

    def __init__(self, lists: Ragged, items: int, definition: str = "") -> None:
        """Takes lists of N items; `definition` names the scores of candidates."""
        self.lists, self._definition = lists, definition
        self.shape, self.dtype = (len(lists.lengths), items), np.dtype(np.float32)

    def rows(self, queries: np.ndarray) -> np.ndarray:
        """See `Scores`."""
        found = np.full((len(queries), self.shape[1]), -np.inf, np.float32)
        at, items = self.lists.expand(queries)
        found[at, items] = np.searchsorted(at, at) - np.arange(len(at))
        return found

    def describe(self, labels: DirectionLabels) -> Rescored | None:
        """See `Scores`."""
        if not self._definition:
            return None
        at, items = self.lists.expand(np.arange(self.shape[0]))
        table = np.full((self.shape[0], self.lists.lengths.max()), -1, np.int32)
        table[at, np.arange(len(at)) - np.searchsorted(at, at)] = items
        table = np.sort(table, axis=1)
        given = hash_arrays("", [table], {})[:_DIGITS]
        return describe_candidates(table, labels, self.shape[1], self._definition, given=given)


def answer_lists(
    scores: ListedScores, directions: Sequence[DirectionLabels]
) -> list[RankedQueries]:
    """Answers directions by the metrics that are determined for every query; `missing` has others.

    A list that ends before its first positive leaves the rank undetermined, but determines recall@k
    if it has at least k items; within folds, only items of the query's fold count.
    """
    found = rank_queries(scores, directions)
    return [_decide(scores, *each) for each in zip(directions, found, strict=True)]


def _decide(scores: ListedScores, labels: DirectionLabels, answer: RankedQueries) -> RankedQueries:
    """An answer without the metrics that need more items than the lists have."""
    (queries, gallery), lengths, asked = scores.shape, scores.lists.lengths, has_positives(labels)
    whole = np.full(queries, gallery)
    if labels.folds is not None:
        own, theirs = labels.folds
        at, items = scores.lists.expand(np.arange(queries))
        lengths = np.bincount(at[own[at] == theirs[items]], minlength=queries)
        whole = np.bincount(theirs, minlength=int(own.max()) + 1)[own]
    known = lengths >= whole
    if answer.rank is not None:
        known |= answer.rank < gallery
    missing = {}
    for metric in labels.metrics:
        if metric in LIST_METRICS:
            short = lengths < np.minimum(find_deepest(labels), gallery)
        else:
            depth = int(metric.removeprefix(RECALL)) if metric.startswith(RECALL) else gallery
            short = ~known & (lengths < depth)
        if number := np.sum(short & asked):
            missing[metric] = (
                f"the lists of {number} of {asked.sum()} queries are too short to determine it"
            )
    values = {metric: each for metric, each in answer.values.items() if metric not in missing}
    rank = answer.rank if known[asked].all() else None
    # A list does not show equal scores.
    return dataclasses.replace(answer, rank=rank, tied=None, values=values, missing=missing)


def open_lists(
    source: RankedLists | Candidates,
    labels: Labels,
    asked: Mapping[str, Sequence[DirectionLabels]],
) -> dict[str, ListedScores]:
    """Returns ranked lists by position in the galleries of a split, by direction.

    Candidates are ranked by descending score; of equal scores, the smaller id comes first. A query
    needs no list if it has no positive in any of the labels `asked` of its direction.
    """
    definition = ""
    if isinstance(source, Candidates):
        source, definition = _sort_candidates(source), source.definition
    ids = {"image": labels.image_ids, "text": labels.caption_ids}
    opened = {}
    for direction, lists in (("i2t", source.i2t), ("t2i", source.t2i)):
        if lists is None:
            continue
        queries, items = (Positions(KINDS[s], ids[s]) for s in DIRECTIONS[direction])
        place = f"{direction!r} in {source.place}"
        given = np.fromiter(lists, np.int64, len(lists))
        rows = _find(queries, given, f"the queries under {place}")
        lacking = np.zeros(len(queries.ids), bool)
        for each in asked.get(direction, ()):
            lacking |= has_positives(each)
        lacking[rows] = False
        if lacking.any():
            raise UserError(
                f"There is no list under {place} for {lacking.sum()} of the {queries.kind}s that "
                f"are queries of the benchmarks, the first is {queries.ids[lacking.argmax()]}; "
                "add them, or name in `benchmarks` only benchmarks that do not use them."
            )
        by_row = dict(zip(rows.tolist(), lists.values(), strict=True))
        ranked = [by_row.get(row, np.zeros(0, np.int64)) for row in range(len(queries.ids))]
        offsets = np.concatenate([[0], np.cumsum(list(map(len, ranked)))])
        values = _find(items, np.concatenate(ranked), f"the lists under {place}")
        ordered = Ragged(offsets, values.astype(np.int32))
        opened[direction] = ListedScores(ordered, len(items.ids), definition)
    return opened


def _sort_candidates(source: Candidates) -> RankedLists:
    lists = {}
    for direction, (items, scores) in source.directions.items():
        queries = source.image_ids if direction == "i2t" else source.caption_ids
        ranked = np.take_along_axis(items, np.lexsort((items, -scores)), axis=1)
        lists[direction] = dict(zip(queries.tolist(), ranked, strict=True))
    return RankedLists(source.place, lists.get("i2t"), lists.get("t2i"))


def _find(positions: Positions, ids: np.ndarray, what: str) -> np.ndarray:
    found = positions.find(ids)
    if (unknown := found < 0).any():
        raise UserError(
            f"{unknown.sum()} of {len(ids)} ids of {what} are not {positions.kind}s of this split, "
            f"the first is {ids[unknown.argmax()]}; rank the items of one split only, and name it "
            "in `split`."
        )
    return found
