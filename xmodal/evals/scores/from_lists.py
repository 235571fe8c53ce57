"""Answers directions from ranked lists; truncation leaves some metrics undetermined."""

import numpy as np

from xmodal.evals.labels.positives import Ragged
from xmodal.evals.labels.types import DirectionLabels
from xmodal.evals.reports.metrics import RECALL, compute_recall_values
from xmodal.evals.scores.ranks import (
    LIST_METRICS,
    RankedQueries,
    compute_list_values,
    find_deepest,
    has_positives,
    listed_positives,
)


def answer_lists(lists: Ragged, labels: DirectionLabels, gallery: int) -> RankedQueries:
    """Computes the metrics that are determined for every query; `missing` names the others.

    A list that ends before its first positive leaves the rank undetermined, but determines recall@k
    if it has at least k items; within folds, only items of the query's fold count. `lists` are
    items by descending score, with an empty row for a query that has no positive.
    """
    table = _pad(lists, labels)
    is_query = has_positives(labels)
    rows = np.flatnonzero(is_query)
    length = np.sum(table >= 0, axis=1)
    values, missing = {}, {}
    rank = None
    if not set(labels.metrics) <= set(LIST_METRICS):
        rank, known = _ranks(table, listed_positives(labels), length)
        complete = length >= (gallery if labels.folds is None else _fold_sizes(labels))
        known |= complete | ~is_query
        recalls = compute_recall_values(rank, labels.metrics)
        for metric, recall in recalls.items():
            depth = int(metric.removeprefix(RECALL)) if metric.startswith(RECALL) else gallery
            if undecided := int(np.sum(~known & (length < depth))):
                missing[metric] = _too_short(undecided, rows)
            else:
                values[metric] = recall
        if not known.all():
            rank = None
            if "median_rank" in labels.metrics:
                missing["median_rank"] = _too_short(int(np.sum(~known)), rows)
    for metric in (each for each in labels.metrics if each in LIST_METRICS):
        if undecided := int(np.sum((length < np.minimum(find_deepest(labels), gallery))[rows])):
            missing[metric] = _too_short(undecided, rows)
            continue
        values[metric] = np.zeros(len(is_query))
        values[metric][rows] = compute_list_values(labels, table[rows], rows, metric)
    # A list does not show equal scores.
    return RankedQueries(rank, None, values=values, missing=missing)


def _pad(lists: Ragged, labels: DirectionLabels) -> np.ndarray:
    """Lists as int32 [Q, depth] with -1 after the last item, without other folds' items."""
    rows = np.repeat(np.arange(len(lists.lengths)), lists.lengths)
    items = lists.values
    if labels.folds is not None:
        own = labels.folds[0][rows] == labels.folds[1][items]
        rows, items = rows[own], items[own]
    counts = np.bincount(rows, minlength=len(lists.lengths))
    table = np.full((len(counts), max(1, int(counts.max(initial=0)))), -1, np.int32)
    place = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    table[rows, place] = items
    return table


def _ranks(
    table: np.ndarray, positives: Ragged, length: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Rank of the first positive, or the length of a list without one; whether it is known."""
    hits = positives.contains(np.arange(len(table))[:, None], table)
    found = np.any(hits, axis=1)
    return np.where(found, hits.argmax(axis=1), length).astype(np.int32), found


def _fold_sizes(labels: DirectionLabels) -> np.ndarray:
    own, theirs = labels.folds
    return np.bincount(theirs, minlength=int(own.max()) + 1)[own]


def _too_short(undecided: int, rows: np.ndarray) -> str:
    return f"the lists of {undecided} of {len(rows)} queries are too short to determine it"
