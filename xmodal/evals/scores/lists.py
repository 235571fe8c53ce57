"""Answers directions from ranked lists; truncation leaves some metrics undetermined.

The candidates of a second stage are such lists.
"""

import dataclasses
from collections.abc import Mapping

import numpy as np

from xmodal.evals.labels.definitions import DIRECTIONS, KINDS
from xmodal.evals.labels.ids import Positions
from xmodal.evals.labels.positives import Ragged
from xmodal.evals.labels.types import DirectionLabels, Labels
from xmodal.evals.reports.metrics import RECALL
from xmodal.evals.reports.results import Rescored
from xmodal.evals.scores.ranks import (
    RankedQueries,
    find_depth,
    has_positives,
    rank_directions,
    reads_list,
)
from xmodal.evals.scores.rerank import describe_candidates
from xmodal.evals.scores.score_files import hash_arrays
from xmodal.evals.scores.score_rows import Scores
from xmodal.evals.scores.sources import Candidates, Ids, RankedLists

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
        table = np.full((self.shape[0], self.lists.lengths.max(initial=1)), -1, np.int32)
        table[at, np.arange(len(at)) - np.searchsorted(at, at)] = items
        table = np.sort(table, axis=1)
        given = hash_arrays("", [table], {})[:_DIGITS]
        return describe_candidates(table, labels, self.shape[1], self._definition, given=given)


def answer_lists(
    source: RankedLists | Candidates,
    labels: Labels,
    asked: Mapping[tuple[str, str], DirectionLabels],
) -> dict[tuple[str, str], RankedQueries]:
    """Ranks by lists, for the directions that have them, where every query determines a metric.

    The labels `asked` are by the names of benchmark and direction.

    `missing` names the others. A list that ends before its first positive leaves the rank
    undetermined, but determines recall@k if it has at least k items; within folds, only items of
    the query's fold count.
    """
    answers = {}
    for direction in source.directions:
        own = {key: each for key, each in asked.items() if key[1] == direction}
        scores = open_lists(source, labels, direction)
        for key, answer in zip(own, rank_directions(scores, [*own.values()])[0], strict=True):
            answers[key] = keep_determined(scores, own[key], answer)
    return answers


def keep_determined(
    scores: ListedScores, labels: DirectionLabels, answer: RankedQueries
) -> RankedQueries:
    """Returns an answer without the metrics that need more items than the lists have."""
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
        if reads_list(metric):
            short = lengths < np.minimum(find_depth(labels, metric, gallery), whole)
        else:
            depth = int(metric.removeprefix(RECALL)) if metric.startswith(RECALL) else gallery
            short = ~known & (lengths < depth)
        if number := np.sum(short & asked):
            missing[metric] = (
                f"the lists of {number} of {asked.sum()} queries are missing or too short"
            )
    values = {metric: each for metric, each in answer.values.items() if metric not in missing}
    rank = answer.rank if known[asked].all() else None
    # A list does not show equal scores.
    return dataclasses.replace(answer, rank=rank, tied=None, values=values, missing=missing)


def open_lists(source: RankedLists | Candidates, labels: Ids, direction: str) -> ListedScores:
    """Returns the ranked lists of a direction by position in the galleries of a split.

    Candidates are ranked by descending score; of equal scores, the smaller id comes first. Queries
    and items that are not in the split are ignored, as those of embeddings are. The list of a query
    without one is empty.
    """
    ids = {"image": labels.image_ids, "text": labels.caption_ids}
    queries, items = (Positions(KINDS[each], ids[each]) for each in DIRECTIONS[direction])
    definition, ranked = "", None
    if isinstance(source, RankedLists):
        lists = source.directions.get(direction, {})
        given, ranked = np.fromiter(lists, np.int64, len(lists)), list(lists.values())
    else:
        given = source.image_ids if direction == "i2t" else source.caption_ids
        found, scores = source.directions[direction]
        ranked = np.take_along_axis(found, np.lexsort((found, -scores)), axis=1)
        definition = source.definition
    values = items.find(np.concatenate([np.zeros(0, np.int64), *ranked]))
    rows = queries.find(given)
    at = np.repeat(rows, [len(each) for each in ranked])
    kept = np.flatnonzero((at >= 0) & (values >= 0))
    kept = kept[np.argsort(at[kept], kind="stable")]
    lengths = np.bincount(at[kept], minlength=len(queries.ids))
    listed = Ragged(np.concatenate([[0], np.cumsum(lengths)]), values[kept].astype(np.int32))
    return ListedScores(listed, len(items.ids), definition)
