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

BySplit = Mapping[str, tuple[str, int]]
"""Split -> kind and id of the item with a name or text there; only captions may be in several."""


def rated_pairs(
    path: pathlib.Path, images: Mapping[str, BySplit], captions: Mapping[str, BySplit]
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
    index = PathIndex(images)

    def find(cell: Any) -> BySplit | str:
        text = "" if is_empty(cell) else str(cell).strip()
        found = [images[place] for place in index.find(text) if text]
        found += [captions[composed(text)]] if composed(text) in captions else []
        if len(found) != 1 or not found[0]:
            return f"{cell!r:.60} is not exactly one picture or caption that is used"
        return found[0]

    seen: set[tuple[str, int, int]] = set()
    for number, row in enumerate(read_rows(path)):
        if isinstance(row, LeftOut):
            yield "train", row
            continue
        where, cells = row
        if missing := [name for name in _COLUMNS if name not in cells]:
            raise UnexpectedFilesError(
                f"{path.parent / where} has no {', '.join(missing)}; ratings need the columns "
                f"left, right and score, but it has {', '.join(cells)}"
            )
        score = _score(cells["score"], f"{path.parent / where}")
        left, right = find(cells["left"]), find(cells["right"])
        if isinstance(left, str) or isinstance(right, str):
            reason = next(each for each in (left, right) if isinstance(each, str))
            yield "train", LeftOut(where, "no rated pair", reason)
            continue
        split = next((split for split in left if split in right), "")
        if not split:
            detail = f"left in {', '.join(left)}, right in {', '.join(right)}"
            yield "train", LeftOut(where, "pair of two splits", detail, is_record=False)
            continue
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
