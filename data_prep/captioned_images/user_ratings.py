"""A user's rated pairs: `left`, `right` and `score`, each side a picture or a caption."""

import math
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from data_prep.building.record_counts import LeftOut, Record
from data_prep.captioned_images.captioned_pictures import is_empty
from data_prep.captioned_images.tables import open_table
from data_prep.errors import UnexpectedFilesError
from data_prep.schema import rating_example

_COLUMNS = ("left", "right", "score")
# Kinds of the two sides -> rating. A caption is the left side of a pair with a picture.
_RATINGS = {("caption", "caption"): "sts", ("image", "image"): "sis", ("caption", "image"): "sits"}

Item = tuple[str, int, str]
"""Kind, id and split."""


def rated_pairs(
    path: pathlib.Path, items: Mapping[str, Item]
) -> Iterator[tuple[str, Record | LeftOut]]:
    """Yields the pairs of a table with their split, which is the same for both sides.

    Args:
      path: path of the table.
      items: names of pictures, also in their `picture_files.spellings`, and texts of captions.

    Raises:
      UnexpectedFilesError: the table lacks a column, or a score is not a number.
    """
    table = open_table(path)
    names = {name.strip().lower(): name for name in table.names}
    if missing := [name for name in _COLUMNS if name not in names]:
        raise UnexpectedFilesError(
            f"{path} has no column {', '.join(missing)}; ratings need the columns left, right and "
            f"score, but it has {', '.join(table.names)}"
        )
    seen: set[tuple[str, int, int]] = set()
    rows = table.rows(names["left"], lambda name: _find(items, name) is not None)
    for number, row in enumerate(rows):
        if isinstance(row, LeftOut):
            yield "train", row
            continue
        where, cells = row
        left, right = (_find(items, cells[names[side]]) for side in _COLUMNS[:2])
        score = _score(cells[names["score"]], f"{path.parent / where}")
        if left is None or right is None:
            side = "left" if left is None else "right"
            detail = f"{side} is {str(cells[names[side]])!r:.60}"
            yield "train", LeftOut(where, "neither a picture nor a caption", detail)
            continue
        if (left[0], right[0]) not in _RATINGS:
            left, right = right, left
        if left[2] != right[2]:
            detail = f"left in {left[2]}, right in {right[2]}"
            yield "train", LeftOut(where, "pair of two splits", detail, is_record=False)
            continue
        rating = _RATINGS[left[0], right[0]]
        if (rating, left[1], right[1]) in seen:
            yield left[2], LeftOut(where, "pair appears twice")
            continue
        seen.add((rating, left[1], right[1]))
        yield left[2], (number, rating_example(rating, left[1], right[1], score, "rated"))


def _find(items: Mapping[str, Item], cell: Any) -> Item | None:
    if is_empty(cell):
        return None
    text = str(cell).strip()
    return items.get(text) or items.get(text.replace("\\", "/").lower())


def _score(cell: Any, where: str) -> float:
    try:
        score = float(cell)
    except (TypeError, ValueError):
        score = math.nan
    if not math.isfinite(score):
        raise UnexpectedFilesError(f"{where}: the score {cell!r:.60} is not a number")
    return score
