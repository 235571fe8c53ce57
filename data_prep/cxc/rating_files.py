"""Readers for rated pairs in the format of CxC, `{sts,sis,sits}_{val,test}.csv`.

`*_raw.csv` beside such a file has the scores of single raters.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from statistics import fmean

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
# Raters of every released pair, and the error of means with two decimals.
RATERS, _ROUNDING = 5, 0.01
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


def read_rater_scores(
    path: AnyPath, rating: str, pairs: Sequence[Rating], *, released: bool = True
) -> list[tuple[float, ...]]:
    """Reads the scores of single raters from `*_raw.csv` beside a file, if there is one.

    Rows have the two ids of a pair, a score (or several), and the sampling method, as the README of
    the release describes them. The header is not read, since it differed between releases.

    Args:
      path: path of the file of means.
      rating: `sts`, `sis` or `sits`.
      pairs: the content of that file.
      released: see `read_ratings`.

    Returns:
      The scores of every pair, in any order of the raters; () for all without the file.

    Raises:
      UnexpectedFilesError: a row is not valid or of another pair, or the mean of a pair's scores is
        not its score, up to two decimals.
    """
    raw = path.with_name(f"{path.stem}_raw.csv")
    if not raw.exists():
        return [()] * len(pairs)
    found = {(each.left_id, each.right_id): list[float]() for each in pairs}
    for where, row in read_csv(raw, columns=()):
        try:
            left, right, *scores, _ = row.values()
            ids = _read_ids(dict(zip(SIDES[rating], (left, right), strict=True)), rating, released)
            found[ids] += map(float, scores)
        except (KeyError, ValueError) as error:
            reason = f"pair {error} is not in {path.name}" if type(error) is KeyError else error
            raise UnexpectedFilesError(f"{raw.parent / where}: {reason}") from error
    raters = [tuple(found[each.left_id, each.right_id]) for each in pairs]
    differing = [
        f"{pair.where}: {pair.score:g}, of {scores} in {raw.name}"
        for pair, scores in zip(pairs, raters, strict=True)
        if not scores or not abs(fmean(scores) - (pair.score or 0)) <= _ROUNDING
    ]
    if differing:
        raise UnexpectedFilesError(
            f"{raw} does not have the raters of {path.name}: {len(differing):,} of {len(pairs):,} "
            f"means differ, the first is {differing[0]}. Get both files again, or move this one "
            "elsewhere to use the means alone."
        )
    return raters


def _read_ids(row: Mapping[str, str], rating: str, released: bool) -> tuple[int, int]:
    ids = []
    for column in SIDES[rating]:
        name = _CAPTION if column.startswith("caption") else _IMAGE
        match = (name if released else _ANY_ID).fullmatch(row[column])
        if match is None:
            raise ValueError(
                f"{column} is {row[column]!r}, no {'' if released else 'id or '}COCO name"
            )
        ids.append(int(match[1]))
    return ids[0], ids[1]


def _read_row(where: str, row: Mapping[str, str], rating: str, released: bool) -> Rating:
    score = float(row[SCORE]) if SCORE in row else None
    return Rating(where, *_read_ids(row, rating, released), score, row[METHOD])
