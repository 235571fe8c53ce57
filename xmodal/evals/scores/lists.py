"""Reads and checks ranked lists of any model."""

import os
import re
from collections.abc import Mapping, Sequence

import numpy as np

from xmodal.core.errors import UserError
from xmodal.core.untrusted.json_text import parse_json_text
from xmodal.evals.labels.definitions import DIRECTIONS, KINDS
from xmodal.evals.labels.ids import Positions
from xmodal.evals.labels.positives import Ragged
from xmodal.evals.labels.types import Board, Labels
from xmodal.evals.scores.array_checks import LARGEST_ID, find_wrong_id
from xmodal.evals.scores.arrays import first_line, place_of
from xmodal.evals.scores.sources import RankedLists


def load_rankings(source: str | os.PathLike | Mapping[str, Mapping]) -> RankedLists:
    """Reads ranked lists in the format of the eccv_caption library.

    Args:
      source: JSON file `{"i2t": {image id: [caption ids]}, "t2i": {caption id: [image ids]}}`, or
        the same as mappings, most similar first. One direction may be missing.

    Raises:
      UserError: the file cannot be read, or a list is empty, names an item twice or holds
        something other than ids.
    """
    place = place_of(source, "rankings")
    content = source if isinstance(source, Mapping) else _read_json(place)
    if not isinstance(content, Mapping) or not {"i2t", "t2i"} & set(content):
        found = sorted(content) if isinstance(content, Mapping) else type(content).__name__
        raise UserError(
            f"{place} holds {found}; rankings are expected under 'i2t' (image id -> caption "
            "ids) and 't2i' (caption id -> image ids)."
        )
    directions = {
        direction: _check_lists(content[direction], place, direction)
        if direction in content
        else None
        for direction in ("i2t", "t2i")
    }
    return RankedLists(place, **directions)


def order_rankings(
    saved: RankedLists, labels: Labels, boards: Sequence[Board]
) -> dict[str, Ragged]:
    """Returns ranked lists by position in the galleries of a split, by direction.

    Lists have one row per query of the split, best item first; a list may be empty only if its
    query is not used by any of the boards to be computed.

    Raises:
      UserError: a list names unknown items or has an unknown query, or a query has no list.
    """
    ids = {"image": labels.image_ids, "text": labels.caption_ids}
    ordered = {}
    for direction, lists in (("i2t", saved.i2t), ("t2i", saved.t2i)):
        if lists is not None:
            queries, items = (Positions(KINDS[s], ids[s]) for s in DIRECTIONS[direction])
            place = f"{direction!r} in {saved.place}"
            rows = _find_queries(lists, queries, place)
            _check_complete(rows, queries, direction, boards, place)
            ordered[direction] = _make_ragged(lists, rows, queries, items, place)
    return ordered


def _find_queries(lists: Mapping[int, np.ndarray], queries: Positions, place: str) -> np.ndarray:
    """Position of the query of every list."""
    names = np.fromiter(lists, np.int64, len(lists))
    rows = queries.find(names)
    unknown = names[rows < 0]
    if len(unknown):
        raise UserError(
            f"{len(unknown)} of the {len(names)} lists under {place} are for queries that are not "
            f"{queries.kind}s of this split, the first for {unknown[0]}; leave them out, or name "
            "their split in `split`."
        )
    return rows


def _check_complete(
    rows: np.ndarray, queries: Positions, direction: str, boards: Sequence[Board], place: str
) -> None:
    """Raises an error if lists, for the queries at `rows`, lack a query of some board."""
    asking = [board for board in boards if direction in board.directions]
    lacking = np.zeros(len(queries.ids), bool)
    for board in asking:
        for each in board.directions[direction].relations:
            lacking |= each.lengths > 0
    number = lacking.sum()
    lacking[rows] = False
    if lacking.any():
        raise UserError(
            f"There is no list under {place} for {lacking.sum()} of the {number} {queries.kind}s "
            f"that are queries of {', '.join(board.name for board in asking)}, the first is "
            f"{queries.ids[lacking.argmax()]}; add them, or name in `boards` only boards that "
            "do not use them."
        )


def _make_ragged(
    lists: Mapping[int, np.ndarray],
    rows: np.ndarray,
    queries: Positions,
    items: Positions,
    place: str,
) -> Ragged:
    by_row = list(lists.values())
    by_row = [by_row[i] for i in np.argsort(rows)]
    lengths = np.zeros(len(queries.ids), np.int64)
    lengths[np.sort(rows)] = [len(ranked) for ranked in by_row]
    named = np.concatenate(by_row)
    values = items.find(named)
    unknown = values < 0
    if unknown.any():
        query = np.repeat(queries.ids, lengths)[unknown.argmax()]
        raise UserError(
            f"The list of query {query} under {place} names {named[unknown.argmax()]}, which is "
            f"not a {items.kind} of this split (nor are {unknown.sum() - 1} other entries); rank "
            "the items of one split only, and name it in `split`."
        )
    return Ragged(np.concatenate([[0], np.cumsum(lengths)]), values.astype(np.int32))


def _read_json(path: str) -> object:
    try:
        with open(path, encoding="utf-8-sig") as file:
            return parse_json_text(file.read())
    except FileNotFoundError as error:
        raise UserError(f"There is no file {path!r}.") from error
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read as JSON ({first_line(error)}).") from error


def _check_lists(lists: object, place: str, direction: str) -> dict[int, np.ndarray]:
    if not isinstance(lists, Mapping) or not lists:
        raise UserError(f"{direction!r} in {place} is not a mapping of query ids to lists of ids.")
    checked = {}
    for key, ranked in lists.items():
        query = _read_id(key)
        if query is None:
            raise UserError(
                f"Query {key!r} under {direction!r} in {place} is not an id; ids must be integers "
                "within int64."
            )
        if query in checked:
            raise UserError(f"Query {query} occurs twice under {direction!r} in {place}.")
        checked[query] = _check_list(ranked, f"The {direction} list of query {query} in {place}")
    return checked


def _read_id(key: object) -> int | None:
    """The id that a key of JSON or of a mapping names; None for anything else."""
    if isinstance(key, str):
        found = int(key) if re.fullmatch(r"\s*[+-]?[0-9]{1,25}\s*", key) else None
    elif isinstance(key, int | np.integer) and not isinstance(key, bool):
        found = int(key)
    else:
        found = None
    return found if found is not None and abs(found) <= LARGEST_ID else None


def _check_list(ranked: Sequence[int], name: str) -> np.ndarray:
    if not isinstance(ranked, Sequence | np.ndarray) or isinstance(ranked, str):
        raise UserError(f"{name} is not a list of ids.")
    if not len(ranked):
        raise UserError(f"{name} is empty; add at least its best item, or leave the query out.")
    try:
        ids = np.asarray(ranked)
    except ValueError:  # It contains lists.
        ids = np.asarray(ranked, object)
    if wrong := find_wrong_id(ids):
        raise UserError(f"{name} holds something other than integer ids of int64: {wrong}.")
    unique, counts = np.unique(ids, return_counts=True)
    if len(unique) < len(ids):
        twice = unique[counts > 1][0]
        raise UserError(f"{name} names item {twice} twice; an item has one rank.")
    return ids.astype(np.int64)
