"""A user's rated pairs: `left`, `right` and `score`, each side a picture or a caption."""

import math
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from data_prep.building.record_counts import LeftOut, Record
from data_prep.captioned_images.captioned_pictures import is_empty
from data_prep.captioned_images.picture_files import PathIndex
from data_prep.captioned_images.tables import read_rows
from data_prep.schema import rating_example
from xmodal.core.errors import UnexpectedFilesError
from xmodal.core.picture_names import composed

_COLUMNS = ("left", "right", "score")
# Kinds of the two sides -> rating. A caption is the left side of a pair with a picture.
_RATINGS = {("caption", "caption"): "sts", ("image", "image"): "sis", ("caption", "image"): "sits"}

Item = tuple[str, int]
"""Kind and id."""
BySplit = Mapping[str, Item]
"""Split -> the item with a name or text there; only captions may be in several."""


def rated_pairs(
    path: pathlib.Path,
    images: Mapping[str, BySplit],
    captions: Mapping[str, BySplit],
) -> Iterator[tuple[str, Record | LeftOut]]:
    """Yields the pairs of a table with their split, which is the same for both sides.

    A caption that several splits have is in the split of the other side.

    Args:
      path: path of the table.
      images: pictures by their paths, of which a side may be the end; see `PathIndex`. {} for
        those that are not used, since a side may stand for one of them.
      captions: captions by their texts in composed form.

    Raises:
      UnexpectedFilesError: the table lacks a column, or a score is not a number.
    """
    rows = list(read_rows(path))
    columns = {name for row in rows if not isinstance(row, LeftOut) for name in row[1]}
    if missing := [name for name in _COLUMNS if name not in columns]:
        raise UnexpectedFilesError(
            f"{path} has no column {', '.join(missing)}; ratings need the columns left, right and "
            f"score, but it has {', '.join(sorted(columns))}"
        )
    seen: set[tuple[str, int, int]] = set()
    index = PathIndex(images)
    for number, row in enumerate(rows):
        if isinstance(row, LeftOut):
            yield "train", row
            continue
        where, cells = row
        found = [_find(index, images, captions, cells.get(side)) for side in _COLUMNS[:2]]
        score = _score(cells.get("score"), f"{path.parent / where}")
        if wrong := [text for text in found if isinstance(text, str)]:
            yield "train", LeftOut(where, "no rated pair", wrong[0])
            continue
        left, right = (side for side in found if not isinstance(side, str))
        if not (splits := [split for split in left if split in right]):
            detail = f"left in {', '.join(left)}, right in {', '.join(right)}"
            yield "train", LeftOut(where, "pair of two splits", detail, is_record=False)
            continue
        split = splits[0]
        pair = left[split], right[split]
        if (pair[0][0], pair[1][0]) not in _RATINGS:
            pair = pair[::-1]
        (kind, left_id), (other, right_id) = pair
        rating = _RATINGS[kind, other]
        if (rating, left_id, right_id) in seen:
            yield split, LeftOut(where, "pair appears twice")
            continue
        seen.add((rating, left_id, right_id))
        yield split, (number, rating_example(rating, left_id, right_id, score, "rated"))


def _find(
    index: PathIndex,
    images: Mapping[str, BySplit],
    captions: Mapping[str, BySplit],
    cell: Any,
) -> BySplit | str:
    """The picture or caption in a cell by split, or why there is not one."""
    text = "" if is_empty(cell) else str(cell).strip()
    found = {f"the picture {place}": images[place] for place in index.find(text) if text}
    if caption := captions.get(composed(text)):
        found["a caption"] = caption
    if len(found) > 1:
        return f"{text!r:.60} is {' and '.join(list(found)[:2])}"
    if not found:
        return f"{cell!r:.60} is neither a picture nor a caption"
    return next(iter(found.values())) or f"{next(iter(found))} is not used"


def _score(cell: Any, where: str) -> float:
    try:
        score = float(cell)
    except (TypeError, ValueError):
        score = math.nan
    if not math.isfinite(score):
        raise UnexpectedFilesError(
            f"{where}: the score {cell!r:.60} is not a number, such as 3 or 2.5"
        )
    return score
