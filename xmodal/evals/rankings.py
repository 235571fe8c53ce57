"""Ranked lists of any model, read and checked before any work."""

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence

import numpy as np

from xmodal.evals.inputs import first_line, place_of
from xmodal.options import UserError


@dataclasses.dataclass(frozen=True)
class SavedRankings:
    """Ranked lists, most similar first; a direction that was not handed over is None.

    Attributes:
      place: where they came from, for messages.
      i2t: image id -> int64 caption ids.
      t2i: caption id -> int64 image ids.
    """

    place: str
    i2t: Mapping[int, np.ndarray] | None
    t2i: Mapping[int, np.ndarray] | None


def load_rankings(source: str | os.PathLike | Mapping[str, Mapping]) -> SavedRankings:
    """Reads ranked lists in the form that the eccv_caption library takes.

    Args:
      source: JSON file `{"i2t": {image id: [caption ids]}, "t2i": {caption id: [image ids]}}`, or
        the same as mappings; most similar first. One direction may be missing.

    Raises:
      UserError: the file cannot be read, or a list is empty, names an item twice or holds
        something other than ids.
    """
    place = place_of(source)
    content = source if isinstance(source, Mapping) else _read_json(place)
    if not isinstance(content, Mapping) or not {"i2t", "t2i"} & set(content):
        found = sorted(content) if isinstance(content, Mapping) else type(content).__name__
        raise UserError(
            f"{place} holds {found}; rankings are looked for under 'i2t' (image id -> caption "
            "ids) and 't2i' (caption id -> image ids)."
        )
    directions = {
        task: _check_lists(content[task], place, task) if task in content else None
        for task in ("i2t", "t2i")
    }
    return SavedRankings(place, **directions)


def _read_json(path: str) -> object:
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError as error:
        raise UserError(f"There is no file {path!r}.") from error
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is no JSON file ({first_line(error)}).") from error


def _check_lists(lists: object, place: str, task: str) -> dict[int, np.ndarray]:
    if not isinstance(lists, Mapping) or not lists:
        raise UserError(f"{task!r} in {place} is no mapping of query ids to lists of ids.")
    checked = {}
    for key, ranked in lists.items():
        try:
            query = int(key)
        except (TypeError, ValueError):
            raise UserError(f"Query {key!r} under {task!r} in {place} is no id.") from None
        if query in checked:
            raise UserError(f"Query {query} occurs twice under {task!r} in {place}.")
        checked[query] = _check_list(ranked, f"The {task} list of query {query} in {place}")
    return checked


def _check_list(ranked: Sequence[int], name: str) -> np.ndarray:
    if not isinstance(ranked, Sequence | np.ndarray) or isinstance(ranked, str):
        raise UserError(f"{name} is no list of ids.")
    if not len(ranked):
        raise UserError(f"{name} is empty; give at least its best item, or leave the query out.")
    try:
        ids = np.asarray(ranked)
    except ValueError:  # lists in it
        ids = np.zeros(0)
    if ids.ndim != 1 or not np.issubdtype(ids.dtype, np.integer):
        raise UserError(f"{name} holds something other than integer ids.")
    unique, counts = np.unique(ids, return_counts=True)
    if len(unique) < len(ids):
        twice = unique[counts > 1][0]
        raise UserError(f"{name} names item {twice} twice; an item has one rank.")
    return ids.astype(np.int64)
