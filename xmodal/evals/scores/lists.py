"""Reads ranked lists of any model."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xmodal.core.errors import UserError
from xmodal.core.untrusted.json_text import parse_json_text
from xmodal.evals.labels.definitions import DIRECTIONS, KINDS
from xmodal.evals.labels.ids import Positions
from xmodal.evals.labels.positives import Ragged
from xmodal.evals.labels.types import Board, Labels
from xmodal.evals.scores.arrays import first_line, place_of
from xmodal.evals.scores.sources import RankedLists


def load_rankings(source: str | os.PathLike | Mapping[str, Mapping]) -> RankedLists:
    """Reads ranked lists in the format of the eccv_caption library.

    Args:
      source: JSON file `{"i2t": {image id: [caption ids]}, "t2i": {caption id: [image ids]}}`, or
        the same as mappings, most similar first. One direction may be missing.
    """
    place = place_of(source, "rankings")
    content: Any = source
    if not isinstance(source, Mapping):
        try:
            with open(place, encoding="utf-8-sig") as file:
                content = parse_json_text(file.read())
        except FileNotFoundError as error:
            raise UserError(f"There is no file {place!r}.") from error
        except (OSError, ValueError) as error:
            raise UserError(f"{place} cannot be read as JSON ({first_line(error)}).") from error
    if not isinstance(content, Mapping) or not {"i2t", "t2i"} & set(content):
        found = sorted(content) if isinstance(content, Mapping) else type(content).__name__
        raise UserError(
            f"{place} holds {found}; rankings are expected under 'i2t' (image id -> caption "
            "ids) and 't2i' (caption id -> image ids)."
        )
    directions = {
        name: _read_lists(content[name], f"{name!r} in {place}") if name in content else None
        for name in ("i2t", "t2i")
    }
    return RankedLists(place, **directions)


def _read_lists(lists: Any, place: str) -> dict[int, np.ndarray]:
    if not isinstance(lists, Mapping) or not lists:
        raise UserError(f"{place} is not a mapping of query ids to lists of ids.")
    found: dict[int, np.ndarray] = {}
    for key, ranked in lists.items():
        try:
            query = int(key) if isinstance(key, str) else int(np.int64(key))
            ids = np.asarray(ranked)
        except (TypeError, ValueError, OverflowError):
            query, ids = 0, np.zeros(0)
        if ids.ndim != 1 or ids.dtype.kind not in "iu" or not len(ids) or query in found:
            raise UserError(
                f"The list of query {key!r} under {place} is {ranked!r:.80}; it must be a list of "
                "the integer ids of its items, best first, one for each integer query id."
            )
        if len(np.unique(ids)) < len(ids):
            raise UserError(f"The list of query {key} under {place} names an item twice.")
        found[query] = ids.astype(np.int64)
    return found


def order_rankings(
    saved: RankedLists, labels: Labels, boards: Sequence[Board]
) -> dict[str, Ragged]:
    """Returns ranked lists by position in the galleries of a split, by direction.

    Lists have one row per query of the split, best item first; a list may be empty only if its
    query is not used by any of the boards to be computed.
    """
    ids = {"image": labels.image_ids, "text": labels.caption_ids}
    ordered = {}
    for direction, lists in (("i2t", saved.i2t), ("t2i", saved.t2i)):
        if lists is None:
            continue
        queries, items = (Positions(KINDS[s], ids[s]) for s in DIRECTIONS[direction])
        place = f"{direction!r} in {saved.place}"
        names = np.fromiter(lists, np.int64, len(lists))
        rows = queries.find(names)
        _refuse_unknown(names, rows, queries.kind, f"the queries under {place}")
        asked = np.zeros(len(queries.ids), bool)
        for board in boards:
            if direction in board.directions:
                for each in board.directions[direction].relations:
                    asked |= each.lengths > 0
        asked[rows] = False
        if asked.any():
            raise UserError(
                f"There is no list under {place} for {asked.sum()} of the {queries.kind}s that are "
                f"queries of the boards, the first is {queries.ids[asked.argmax()]}; add them, or "
                "name in `boards` only boards that do not use them."
            )
        by_row = [list(lists.values())[i] for i in np.argsort(rows)]
        lengths = np.zeros(len(queries.ids), np.int64)
        lengths[np.sort(rows)] = [len(ranked) for ranked in by_row]
        named = np.concatenate(by_row)
        values = items.find(named)
        _refuse_unknown(named, values, items.kind, f"the lists under {place}")
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        ordered[direction] = Ragged(offsets, values.astype(np.int32))
    return ordered


def _refuse_unknown(ids: np.ndarray, found: np.ndarray, kind: str, what: str) -> None:
    if (unknown := found < 0).any():
        raise UserError(
            f"{unknown.sum()} of {len(ids)} ids of {what} are not {kind}s of this split, the first "
            f"is {ids[unknown.argmax()]}; rank the items of one split only, and name it in `split`."
        )
