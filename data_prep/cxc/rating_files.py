"""Reader for rated pairs in the format of CxC, `{sts,sis,sits}_{val,test}.csv`."""

import dataclasses
import re
from collections.abc import Mapping

from data_prep.reading.csv_files import read_csv
from data_prep.reading.text_files import AnyPath
from xmodal.core.errors import UnexpectedFilesError

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
_IMAGE = re.compile(r"COCO_val2014_000(\d{9})\.jpg", re.ASCII)
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


def read_ratings(
    path: AnyPath,
    rating: str,
    *,
    released: bool = True,
    need_scores: bool = True,
) -> list[Rating]:
    """Reads a file.

    Args:
      path: path of the file.
      rating: `sts`, `sis` or `sits`.
      released: whether the file is in the released form: then items have the names of COCO's
        val2014, and no pair appears twice. Other files may use plain ids.
      need_scores: whether the column of scores must exist.

    Raises:
      FileNotFoundError: the file is missing.
      UnexpectedFilesError: a column is missing, a row is no valid pair, or the file is truncated.
    """
    columns = (*SIDES[rating], *([SCORE] if need_scores else []), METHOD)
    found: dict[object, Rating] = {}
    for where, row in read_csv(path, columns=columns):
        try:
            pair = _read_row(where, row, rating, released)
            found.setdefault((pair.left_id, pair.right_id) if released else where, pair)
        except ValueError as error:
            raise UnexpectedFilesError(f"{path.parent / where}: {error}") from error
    return list(found.values())


def _read_row(where: str, row: Mapping[str, str], rating: str, released: bool) -> Rating:
    ids = []
    for column in SIDES[rating]:
        name = _CAPTION if column.startswith("caption") else _IMAGE
        match = (name if released else _ANY_ID).fullmatch(row[column])
        if match is None:
            raise ValueError(
                f"{column} is {row[column]!r}, no {'' if released else 'id or '}COCO name"
            )
        ids.append(int(match[1]))
    score = float(row[SCORE]) if SCORE in row else None
    left, right = ids
    return Rating(where, left, right, score, row[METHOD])
