"""A user's rated pairs: `left`, `right` and `score`, each side a picture or a caption."""

import math
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from data_prep.building.record_counts import LeftOut, Record
from data_prep.captioned_images.captioned_pictures import is_empty
from data_prep.captioned_images.picture_files import PathIndex
from data_prep.captioned_images.tables import read_rows
from data_prep.reading.picture_names import composed
from data_prep.schema import rating_example

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
    """
    index = PathIndex(images)

    def find(cell: Any) -> BySplit:
        text = "" if is_empty(cell) else str(cell).strip()
        found = [images[place] for place in index.find(text) if text]
        found += [captions[composed(text)]] if composed(text) in captions else []
        return found[0] if len(found) == 1 else {}

    seen: set[tuple[str, int, int]] = set()
    for number, row in enumerate(read_rows(path)):
        if isinstance(row, LeftOut):
            yield "train", row
            continue
        where, cells = row
        left, right = find(cells.get("left")), find(cells.get("right"))
        score = _score(cells.get("score"))
        split = next((split for split in left if split in right), "")
        if not (left and right and math.isfinite(score)):
            shown = (f"{name} {cells.get(name)!r:.60}" for name in ("left", "right", "score"))
            detail = "each side must be exactly one used picture or caption, and the score a number"
            yield "train", LeftOut(where, "no rated pair", f"{', '.join(shown)}: {detail}")
        elif not split:
            detail = f"left in {', '.join(left)}, right in {', '.join(right)}"
            yield "train", LeftOut(where, "pair of two splits", detail, is_record=False)
        else:
            pair = left[split], right[split]
            if (pair[0][0], pair[1][0]) not in _RATINGS:
                pair = pair[::-1]
            (kind, left_id), (other, right_id) = pair
            rating = _RATINGS[kind, other]
            if (rating, left_id, right_id) in seen:
                yield split, LeftOut(where, "pair appears twice")
            else:
                seen.add((rating, left_id, right_id))
                yield split, (number, rating_example(rating, left_id, right_id, score, "rated"))


def _score(cell: Any) -> float:
    try:
        return float(cell)
    except (TypeError, ValueError):
        return math.nan
