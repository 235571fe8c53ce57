"""Reader of the released rating files, `{sts,sis,sits}_{val,test}.csv`."""

import dataclasses
import pathlib
import re
from collections.abc import Iterator, Mapping

from data_prep.building.records import LeftOut
from data_prep.reading.text_files import scan_csv

# Task -> columns of the left and the right side.
SIDES = {
    "sts": ("caption1", "caption2"),
    "sis": ("image1", "image2"),
    "sits": ("caption", "image"),
}
METHODS = {
    "sts": ("c2c_cocaption", "c2c_isim"),
    "sis": ("i2i_csim",),
    "sits": ("c2i_original", "c2i_intrasim"),
}
_CAPTION = re.compile(r"COCO_val2014:sentid:(\d{1,9})", re.ASCII)
_IMAGE = re.compile(r"COCO_val2014_(\d{12})\.jpg", re.ASCII)


@dataclasses.dataclass(frozen=True)
class Rating:
    """One rated pair.

    Attributes:
      where: file and line.
      left_id: COCO's id of the caption or image.
      right_id: likewise.
      score: mean of five raters, 0 to 5.
      method: how the pair was sampled.
    """

    where: str
    left_id: int
    right_id: int
    score: float
    method: str


def read_ratings(path: pathlib.Path, task: str) -> Iterator[Rating | LeftOut]:
    """Reads a file row by row.

    Raises:
      FileNotFoundError: the file is missing.
      UnexpectedFilesError: a column is missing, or the file is cut.
    """
    seen: dict[tuple[int, int], str] = {}
    for row in scan_csv(path, columns=(*SIDES[task], "agg_score", "sampling_method")):
        rating = row if isinstance(row, LeftOut) else _rating(*row, task)
        if isinstance(rating, Rating):
            pair = (rating.left_id, rating.right_id)
            first = seen.setdefault(pair, rating.where)
            if first != rating.where:
                rating = LeftOut(rating.where, "pair comes twice", f"first in {first}")
        yield rating


def _rating(where: str, row: Mapping[str, str], task: str) -> Rating | LeftOut:
    ids = []
    for column in SIDES[task]:
        name = _CAPTION if column.startswith("caption") else _IMAGE
        match = name.fullmatch(row[column])
        if match is None or int(match[1]) >= 2**31:
            return LeftOut(where, "no COCO name", f"{column} is {row[column]!r}")
        ids.append(int(match[1]))
    try:
        score = float(row["agg_score"])
    except ValueError:
        return LeftOut(where, "score is no number", row["agg_score"])
    if not 0 <= score <= 5:  # NaN neither
        return LeftOut(where, "score not from 0 to 5", row["agg_score"])
    if row["sampling_method"] not in METHODS[task]:
        return LeftOut(where, "unknown sampling method", row["sampling_method"])
    return Rating(where, *ids, score, row["sampling_method"])
