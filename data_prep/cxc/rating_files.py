"""Reader for rated pairs in the format of CxC, `{sts,sis,sits}_{val,test}.csv`."""

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
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
      rater_scores: scores of single raters; () if only the mean is known.
    """

    where: str
    left_id: int
    right_id: int
    score: float | None
    method: str
    rater_scores: tuple[float, ...] = ()


def file_name(rating: str, split: str) -> str:
    """File name for a rating; the released files shorten `validation`."""
    return f"{rating}_{'val' if split == 'validation' else split}.csv"


def read_ratings(
    path: AnyPath,
    rating: str,
    *,
    released: bool = True,
    need_scores: bool = True,
    raters: bool = False,
) -> list[Rating]:
    """Reads a file.

    Args:
      path: path of the file.
      rating: `sts`, `sis` or `sits`.
      released: whether the file is in the released form: then items have the names of COCO's
        val2014, and no pair appears twice. Other files may use plain ids.
      need_scores: whether the column of scores must exist.
      raters: whether to read the scores of single raters from `*_raw.csv` beside the file, if there
        is one. As the release's README describes them, its rows have the two ids of a pair, a score
        (or several) and the sampling method; the header, which releases changed, is not read.

    Raises:
      FileNotFoundError: the file is missing.
      UnexpectedFilesError: a column is missing, a row is no valid pair, or the file is truncated;
        a pair's raters do not have its score as their mean or, if released, are not five.
    """
    columns = (*SIDES[rating], *([SCORE] if need_scores else []), METHOD)
    found: dict[object, Rating] = {}
    for where, row in read_csv(path, columns=columns):
        try:
            pair = _read_row(where, row, rating, released)
            found.setdefault((pair.left_id, pair.right_id) if released else where, pair)
        except ValueError as error:
            raise UnexpectedFilesError(f"{path.parent / where}: {error}") from error
    raw, pairs = path.with_name(f"{path.stem}_raw.csv"), list(found.values())
    return list(_add_raters(pairs, raw, rating, released)) if raters and raw.exists() else pairs


def _add_raters(
    pairs: Sequence[Rating], raw: AnyPath, rating: str, released: bool
) -> Iterator[Rating]:
    found = {(pair.left_id, pair.right_id): list[float]() for pair in pairs}
    for where, row in read_csv(raw, columns=()):
        try:
            left, right, *scores, _ = row.values()
            ids = dict(zip(SIDES[rating], (left, right), strict=True))
            found[_read_ids(ids, rating, released)] += map(float, scores)
        except (KeyError, ValueError) as error:
            reason = f"{type(error).__name__} {error}"
            raise UnexpectedFilesError(f"{raw.parent / where}: {reason}") from error
    for pair in pairs:
        scores, score = tuple(found[pair.left_id, pair.right_id]), pair.score or 0.0
        is_rated = len(scores) == RATERS if released else scores
        if not is_rated or not abs(fmean(scores) - score) <= _ROUNDING:
            raise UnexpectedFilesError(
                f"{raw}: the raters of {pair.where}, {scores}, "
                f"{f'do not have the mean {score:g}' if is_rated else f'are not {RATERS}'}. Get "
                "both files again, or move this one elsewhere to use the means alone."
            )
        yield dataclasses.replace(pair, rater_scores=scores)


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
