"""The released rating files of Crisscrossed Captions, `{sts,sis,sits}_{val,test}.csv`.

Training reads them with a dataset, and the evaluation command with saved embeddings. Annotation
writes files in this layout. This module imports little, since all of them use it.
"""

import csv
import io
import re
from collections.abc import Mapping

import numpy as np
from etils import epath

from xmodal.config import UserError

# Task -> the columns of its file that hold the left and the right side.
_COLUMNS = {
    "sts": ("caption1", "caption2"),
    "sis": ("image1", "image2"),
    "sits": ("caption", "image"),
}
TASKS = tuple(_COLUMNS)
# Split -> its part of the file names.
SPLITS = {"validation": "val", "test": "test"}
# File name without extension -> number of released pairs.
PAIRS = {
    "sts_val": 44_009,
    "sts_test": 44_045,
    "sis_val": 42_767,
    "sis_test": 46_719,
    "sits_val": 44_722,
    "sits_test": 44_833,
}
_ID = re.compile(r"COCO_val2014(?::sentid:|_)(\d+)(?:\.jpg)?")
HOME = "https://github.com/google-research-datasets/Crisscrossed-Captions/tree/master/data"


def read_cxc_ratings(folder: epath.Path, split: str) -> dict[str, dict[str, np.ndarray]]:
    """Reads the three files of a split.

    Args:
      folder: folder of the files.
      split: `validation` or `test`; other splits have no ratings.

    Returns:
      Task -> columns, as `read_cxc_file` gives them.

    Raises:
      UserError: a file is missing or is not the released one."""
    if split not in SPLITS:
        return {}
    return {task: read_cxc_file(folder / f"{task}_{SPLITS[split]}.csv", task) for task in TASKS}


def read_cxc_file(path: epath.Path, task: str) -> dict[str, np.ndarray]:
    """Reads one file.

    Args:
      path: path of the file.
      task: `sts`, `sis` or `sits`.

    Returns:
      `left_ids`, `right_ids` int32 [P], `scores` float32 [P] and `methods` strings [P].

    Raises:
      UserError: the file is missing or not the released one.
    """
    if not path.exists():
        raise UserError(f"{path} does not exist; get the CxC ratings from {HOME}")
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not text ({error}); get it again from {HOME}") from error
    columns: dict[str, list] = {"left_ids": [], "right_ids": [], "scores": [], "methods": []}
    with io.StringIO(text, newline="") as file:
        rows = csv.reader(file)
        header = next(rows, [])
        wanted = [*_COLUMNS[task], "agg_score", "sampling_method"]
        if missing := [name for name in wanted if name not in header]:
            lacking = ", ".join(missing)
            raise UserError(f"{path} lacks the column {lacking}; get it again from {HOME}")
        left, right, score, method = (header.index(name) for name in wanted)
        for row in filter(None, rows):
            try:
                if len(row) < len(header):
                    raise ValueError(f"{len(row)} columns of {len(header)}")
                columns["left_ids"].append(_coco_id(row[left]))
                columns["right_ids"].append(_coco_id(row[right]))
                columns["scores"].append(_score(row[score]))
                columns["methods"].append(row[method])
            except ValueError as error:
                raise UserError(
                    f"{path} line {rows.line_num}: {error}; get the file again from {HOME}"
                ) from error
    dtypes = {"left_ids": np.int32, "right_ids": np.int32, "scores": np.float32, "methods": str}
    return {key: np.asarray(column, dtypes[key]) for key, column in columns.items()}


def format_cxc_file(task: str, columns: Mapping[str, np.ndarray]) -> str:
    """Returns the content of a file in the released layout.

    Args:
      task: `sts`, `sis` or `sits`.
      columns: `left_ids`, `right_ids`, `scores` and `methods`, [P] each. Scores are rounded to two
        decimals, as in the released files.
    """
    names = ["COCO_val2014:sentid:{}" if "caption" in side else "COCO_val2014_{:012d}.jpg"
             for side in _COLUMNS[task]]  # fmt: skip
    lines = [",".join([*_COLUMNS[task], "agg_score", "sampling_method"])]
    rows = (columns[name].tolist() for name in ("left_ids", "right_ids", "scores", "methods"))
    for left, right, score, method in zip(*rows, strict=True):
        lines.append(f"{names[0].format(left)},{names[1].format(right)},{round(score, 2)},{method}")
    return "\n".join([*lines, ""])


def _coco_id(name: str) -> int:
    match = _ID.fullmatch(name)
    if match is None:
        raise ValueError(f"{name!r} is not a COCO image or caption name")
    return int(match[1])


def _score(text: str) -> float:
    score = float(text)
    if not 0 <= score <= 5:  # Also catches NaN.
        raise ValueError(f"the score {text!r} is not from 0 to 5")
    return score
