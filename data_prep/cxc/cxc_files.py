"""The released rating files of Crisscrossed Captions, `{sts,sis,sits}_{val,test}.csv`.

Training reads them with a dataset, and the evaluation command with saved embeddings. Annotation
writes files in this layout. `data_prep` has the reader, whose rows become arrays here. This module
imports little, since all of them use it.
"""

from collections.abc import Mapping

import numpy as np
from etils import epath

from data_prep.cxc.rating_files import METHOD, SCORE, SIDES, file_name, read_ratings
from data_prep.reading.text_files import AnyPath
from xmodal.core.errors import UnexpectedFilesError, UserError
from xmodal.core.files import csv_text

__all__ = [
    "HOME",
    "RATINGS",
    "SPLITS",
    "THRESHOLDS",
    "file_name",
    "format_cxc_file",
    "read_cxc_file",
    "read_cxc_ratings",
]
RATINGS = tuple(SIDES)
# Lowest scores of positive pairs, of section 3 of the paper.
THRESHOLDS: Mapping[str, float] = {"sts": 3.0, "sits": 3.0, "sis": 2.5}
# Split -> its part of the file names.
SPLITS = {"validation": "val", "test": "test"}
HOME = "https://github.com/google-research-datasets/Crisscrossed-Captions/tree/master/data"


def read_cxc_ratings(folder: epath.Path, split: str) -> dict[str, dict[str, np.ndarray]]:
    """Reads the three files of a split.

    Args:
      folder: folder of the files.
      split: `validation` or `test`; other splits have no ratings.

    Returns:
      Rating -> columns, as `read_cxc_file` gives them.
    """
    if split not in SPLITS:
        return {}
    return {rating: read_cxc_file(folder / file_name(rating, split), rating) for rating in RATINGS}


def read_cxc_file(path: AnyPath, rating: str) -> dict[str, np.ndarray]:
    """Reads one file, released or written by `xmodal annotate`.

    Args:
      path: path of the file.
      rating: `sts`, `sis` or `sits`.

    Returns:
      `left_ids`, `right_ids` int32 [P], `scores` float32 [P] and `methods` strings [P].
    """
    try:
        ratings = read_ratings(path, rating)
    except FileNotFoundError as error:
        raise UserError(f"{path} does not exist; get the CxC ratings from {HOME}") from error
    except UnexpectedFilesError as error:
        raise UserError(f"{error}; get the file again from {HOME}") from error
    return {
        "left_ids": np.array([each.left_id for each in ratings], np.int32),
        "right_ids": np.array([each.right_id for each in ratings], np.int32),
        "scores": np.array([each.score for each in ratings], np.float32),
        "methods": np.array([each.method for each in ratings], str),
    }


def format_cxc_file(rating: str, columns: Mapping[str, np.ndarray]) -> str:
    """Returns the content of a file in the released layout.

    Args:
      rating: `sts`, `sis` or `sits`.
      columns: `left_ids`, `right_ids`, `scores` and `methods`, [P] each. Scores are rounded to two
        decimals, as in the released files.
    """
    names = ["COCO_val2014:sentid:{}" if "caption" in side else "COCO_val2014_{:012d}.jpg"
             for side in SIDES[rating]]  # fmt: skip
    pairs = (columns[name].tolist() for name in ("left_ids", "right_ids", "scores", "methods"))
    rows = (
        (names[0].format(left), names[1].format(right), round(score, 2), method)
        for left, right, score, method in zip(*pairs, strict=True)
    )
    return csv_text([(*SIDES[rating], SCORE, METHOD), *rows])
