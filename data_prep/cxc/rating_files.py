"""Reader for rated pairs in the format of CxC, `{sts,sis,sits}_{val,test}.csv`."""

import dataclasses
import re
from collections.abc import Collection, Iterator, Mapping

from data_prep.building.record_counts import LeftOut
from data_prep.reading.csv_files import scan_csv
from data_prep.reading.text_files import AnyPath

# Rating -> columns of the left and the right side.
SIDES = {
    "sts": ("caption1", "caption2"),
    "sis": ("image1", "image2"),
    "sits": ("caption", "image"),
}
# Rating -> kinds of the left and the right side.
KINDS = {
    "sts": ("caption", "caption"),
    "sis": ("image", "image"),
    "sits": ("caption", "image"),
}
SCORE, METHOD = "agg_score", "sampling_method"
# Rating -> split -> sampling method -> number of released pairs.
RELEASED = {
    "sts": {
        "validation": {"c2c_cocaption": 25_000, "c2c_isim": 19_009},
        "test": {"c2c_cocaption": 25_000, "c2c_isim": 19_045},
    },
    "sis": {"validation": {"i2i_csim": 42_767}, "test": {"i2i_csim": 46_719}},
    "sits": {
        "validation": {"c2i_original": 25_000, "c2i_intrasim": 19_722},
        "test": {"c2i_original": 25_000, "c2i_intrasim": 19_833},
    },
}
_CAPTION = re.compile(r"COCO_val2014:sentid:(\d{1,9})", re.ASCII)
_IMAGE = re.compile(r"COCO_val2014_(\d{12})\.jpg", re.ASCII)
# Pairs of other datasets have plain numbers.
_ANY_ID = re.compile(r"(?:COCO_(?:train|val)2014(?::sentid:|_))?(\d{1,18})(?:\.jpg)?", re.ASCII)


@dataclasses.dataclass(frozen=True)
class Rating:
    """One pair.

    Attributes:
      where: file and line.
      left_id: COCO's id of the caption or image, or an id of another dataset.
      right_id: likewise.
      score: mean over raters, 0 to 5; None in a file of pairs that are not rated yet.
      method: how the pair was sampled.
    """

    where: str
    left_id: int
    right_id: int
    score: float | None
    method: str


def file_name(rating: str, split: str) -> str:
    """File name for a rating; the released files shorten `validation`."""
    return f"{rating}_{'val' if split == 'validation' else split}.csv"


def scan_ratings(
    path: AnyPath,
    rating: str,
    *,
    released: bool = True,
    own_methods: bool = False,
    need_scores: bool = True,
) -> Iterator[Rating | LeftOut]:
    """Reads a file row by row.

    Args:
      path: path of the file.
      rating: `sts`, `sis` or `sits`.
      released: whether the file is a released one: then items have the names of COCO's val2014,
        sampling methods are known, and no pair appears twice. Other files may use plain ids and
        methods of their own.
      own_methods: whether sampling methods may be others than the released ones anyway.
      need_scores: whether the column of scores must exist.

    Yields:
      Pairs, and rows that are not valid pairs.

    Raises:
      FileNotFoundError: the file is missing.
      UnexpectedFilesError: a column is missing, or the file is truncated.
    """
    seen: dict[tuple[int, int], str] = {}
    methods = RELEASED[rating]["test"] if released and not own_methods else None
    columns = (*SIDES[rating], *([SCORE] if need_scores else []), METHOD)
    for row in scan_csv(path, columns=columns):
        found = row if isinstance(row, LeftOut) else _read_row(*row, rating, released, methods)
        if released and isinstance(found, Rating):
            pair = (found.left_id, found.right_id)
            first = seen.setdefault(pair, found.where)
            if first != found.where:
                found = LeftOut(found.where, "pair appears twice", f"first in {first}")
        yield found


def _read_row(
    where: str,
    row: Mapping[str, str],
    rating: str,
    released: bool,
    methods: Collection[str] | None,
) -> Rating | LeftOut:
    ids = []
    for column in SIDES[rating]:
        name, reason = _ANY_ID, "neither a number nor a COCO name"
        if released:
            name, reason = _CAPTION if column.startswith("caption") else _IMAGE, "no COCO name"
        match = name.fullmatch(row[column])
        if match is None or (released and int(match[1]) >= 2**31):
            return LeftOut(where, reason, f"{column} is {row[column]!r}")
        ids.append(int(match[1]))
    score = None
    if SCORE in row:
        try:
            score = float(row[SCORE])
        except ValueError:
            return LeftOut(where, "score is not a number", row[SCORE])
        if not 0 <= score <= 5:  # also rejects NaN
            return LeftOut(where, "score not from 0 to 5", row[SCORE])
    if methods is not None and row[METHOD] not in methods:
        return LeftOut(where, "unknown sampling method", row[METHOD])
    left, right = ids
    return Rating(where, left, right, score, row[METHOD])
