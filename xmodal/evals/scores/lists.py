"""Answers directions from ranked lists; truncation leaves some metrics undetermined.

The candidates of a second stage are such lists.
"""

from collections.abc import Mapping

import numpy as np

from xmodal.core.errors import UserError
from xmodal.evals.labels.definitions import DIRECTIONS, KINDS
from xmodal.evals.labels.ids import Positions
from xmodal.evals.labels.positives import Ragged
from xmodal.evals.labels.types import DirectionLabels, Labels
from xmodal.evals.reports.metrics import RECALL, compute_recall_values
from xmodal.evals.scores.ranks import (
    LIST_METRICS,
    RankedQueries,
    compute_list_values,
    find_deepest,
    has_positives,
    listed_positives,
)
from xmodal.evals.scores.sources import Candidates, RankedLists


def sort_candidates(source: Candidates) -> RankedLists:
    """Returns the candidates by descending score; of equal scores, the smaller id comes first."""
    lists = {}
    for direction, (items, scores) in source.directions.items():
        queries = source.image_ids if direction == "i2t" else source.caption_ids
        ranked = np.take_along_axis(items, np.lexsort((items, -scores)), axis=1)
        lists[direction] = dict(zip(queries.tolist(), ranked, strict=True))
    return RankedLists(source.place, lists.get("i2t"), lists.get("t2i"))


def order_rankings(
    saved: RankedLists, labels: Labels, asked: Mapping[tuple[str, str], DirectionLabels]
) -> dict[str, Ragged]:
    """Returns ranked lists by position in the galleries of a split, by direction.

    Lists have one row per query of the split, best item first; a list may be empty only if its
    query is not used by any of `asked`, by the names of benchmark and direction.
    """
    ids = {"image": labels.image_ids, "text": labels.caption_ids}
    ordered = {}
    for direction, lists in (("i2t", saved.i2t), ("t2i", saved.t2i)):
        if lists is None:
            continue
        queries, items = (Positions(KINDS[s], ids[s]) for s in DIRECTIONS[direction])
        place = f"{direction!r} in {saved.place}"
        rows = _find(
            queries, np.fromiter(lists, np.int64, len(lists)), f"the queries under {place}"
        )
        lacking = np.zeros(len(queries.ids), bool)
        for (_, name), each in asked.items():
            for relation in each.relations if name == direction else ():
                lacking |= relation.lengths > 0
        lacking[rows] = False
        if lacking.any():
            raise UserError(
                f"There is no list under {place} for {lacking.sum()} of the {queries.kind}s that "
                f"are queries of the benchmarks, the first is {queries.ids[lacking.argmax()]}; "
                "add them, or name in `benchmarks` only benchmarks that do not use them."
            )
        by_row = dict(zip(rows, lists.values(), strict=True))
        ranked = [by_row.get(row, np.zeros(0, np.int64)) for row in range(len(queries.ids))]
        offsets = np.concatenate([[0], np.cumsum(list(map(len, ranked)))])
        values = _find(items, np.concatenate(ranked), f"the lists under {place}")
        ordered[direction] = Ragged(offsets, values.astype(np.int32))
    return ordered


def _find(positions: Positions, ids: np.ndarray, what: str) -> np.ndarray:
    found = positions.find(ids)
    if (unknown := found < 0).any():
        raise UserError(
            f"{unknown.sum()} of {len(ids)} ids of {what} are not {positions.kind}s of this split, "
            f"the first is {ids[unknown.argmax()]}; rank the items of one split only, and name it "
            "in `split`."
        )
    return found


def answer_lists(lists: Ragged, labels: DirectionLabels, gallery: int) -> RankedQueries:
    """Computes the metrics that are determined for every query; `missing` names the others.

    A list that ends before its first positive leaves the rank undetermined, but determines recall@k
    if it has at least k items; within folds, only items of the query's fold count. `lists` are
    items by descending score, with an empty row for a query that has no positive.
    """
    table = pad_lists(lists, labels.folds)
    is_query = has_positives(labels)
    rows = np.flatnonzero(is_query)
    length = np.sum(table >= 0, axis=1)
    values, undecided = {}, {}
    rank = None
    if not set(labels.metrics) <= set(LIST_METRICS):
        hits = listed_positives(labels).contains(np.arange(len(table))[:, None], table)
        known = hits.any(axis=1)
        found = np.where(known, hits.argmax(axis=1), length).astype(np.int32)
        complete = length >= (gallery if labels.folds is None else _fold_sizes(labels))
        known |= complete | ~is_query
        for metric, recall in compute_recall_values(found, labels.metrics).items():
            depth = int(metric.removeprefix(RECALL)) if metric.startswith(RECALL) else gallery
            undecided[metric] = np.sum(~known & (length < depth))
            values[metric] = recall
        if known.all():
            rank = found
        elif "median_rank" in labels.metrics:
            undecided["median_rank"] = np.sum(~known)
    for metric in (each for each in labels.metrics if each in LIST_METRICS):
        undecided[metric] = np.sum((length < np.minimum(find_deepest(labels), gallery))[rows])
        values[metric] = np.zeros(len(is_query))
        values[metric][rows] = compute_list_values(labels, table[rows], rows, metric)
    missing = {
        metric: f"the lists of {number} of {len(rows)} queries are too short to determine it"
        for metric, number in undecided.items()
        if number
    }
    values = {metric: each for metric, each in values.items() if metric not in missing}
    # A list does not show equal scores.
    return RankedQueries(rank, None, values=values, missing=missing)


def pad_lists(lists: Ragged, folds: tuple[np.ndarray, np.ndarray] | None = None) -> np.ndarray:
    """Returns lists as int32 [Q, depth] with -1 after the last item, without other folds' items."""
    rows, items = lists.expand(np.arange(len(lists.lengths)))
    if folds is not None:
        own = folds[0][rows] == folds[1][items]
        rows, items = rows[own], items[own]
    counts = np.bincount(rows, minlength=len(lists.lengths))
    table = np.full((len(counts), max(1, int(counts.max(initial=0)))), -1, np.int32)
    place = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    table[rows, place] = items
    return table


def _fold_sizes(labels: DirectionLabels) -> np.ndarray:
    own, theirs = labels.folds
    return np.bincount(theirs, minlength=int(own.max()) + 1)[own]
