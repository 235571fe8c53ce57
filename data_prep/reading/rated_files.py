"""Files of pairs, rated or still to be rated, in the layout that Crisscrossed Captions has.

`{sts,sis,sits}_{val,test}.csv` with two columns of ids, `agg_score` and `sampling_method`. A file
without `agg_score` holds pairs that are to be rated.
"""

import pathlib
import re

import numpy as np

from data_prep.cxc.rating_files import SIDES
from data_prep.errors import UnexpectedFilesError
from data_prep.reading.rated_pairs import RatedPairs
from data_prep.reading.text_files import read_csv

_SCORE, _METHOD = "agg_score", "sampling_method"
_SCALE = (0.0, 5.0)
# Other datasets have bare numbers.
_ID = re.compile(r"(?:COCO_(?:train|val)2014(?::sentid:|_))?(\d+)(?:\.jpg)?")


def file_name(task: str, split: str) -> str:
    """Name of the file of a task; the released files shorten `validation`."""
    return f"{task}_{'val' if split == 'validation' else split}.csv"


def read_folder(
    folder: pathlib.Path, split: str, *, need_scores: bool = True
) -> dict[str, RatedPairs]:
    """Reads the files of a split.

    Args:
      folder: where they lie.
      split: `train`, `validation` or `test`.
      need_scores: whether pairs that are not rated yet are an error.

    Returns:
      Task -> its pairs, for every file that is there.

    Raises:
      FileNotFoundError: none of them is.
      UnexpectedFilesError: a file is empty or damaged, a row is no rated pair, or scores lack.
    """
    files = {task: folder / file_name(task, split) for task in SIDES}
    found = {task: path for task, path in files.items() if path.exists()}
    if not found:
        wanted = ", ".join(path.name for path in files.values())
        raise FileNotFoundError(f"{folder} has none of {wanted}; name another folder or split")
    return {task: _read_file(path, task, need_scores) for task, path in found.items()}


def is_rated(path: pathlib.Path) -> bool:
    """Whether the header of a file has a column of scores."""
    with path.open(encoding="utf-8", errors="replace") as file:
        return _SCORE in file.readline().strip().split(",")


def _read_file(path: pathlib.Path, task: str, need_scores: bool) -> RatedPairs:
    left, right = SIDES[task]
    ids: list[tuple[int, int]] = []
    methods, scores = [], []
    columns = (left, right, *([_SCORE] if need_scores else []), _METHOD)
    for where, row in read_csv(path, columns=columns):
        place = path.parent / where
        ids.append((_read_id(row[left], place), _read_id(row[right], place)))
        methods.append(row[_METHOD])
        if _SCORE in row:
            scores.append(_read_score(row[_SCORE], place))
    if not ids:
        raise UnexpectedFilesError(f"{path} holds no pairs; fetch or make it again")
    left_ids, right_ids = np.array(ids, np.int64).T
    return RatedPairs(
        task=task,
        left_ids=left_ids,
        right_ids=right_ids,
        methods=np.array(methods),
        scores=np.array(scores, np.float32) if scores else None,
    )


def _read_id(name: str, place: pathlib.Path) -> int:
    match = _ID.fullmatch(name)
    if match is None or len(match[1]) > 18:
        raise UnexpectedFilesError(f"{place}: {name!r} is neither a number nor a COCO name")
    return int(match[1])


def _read_score(text: str, place: pathlib.Path) -> float:
    try:
        score = float(text)
    except ValueError:
        score = np.nan
    lowest, highest = _SCALE
    if not lowest <= score <= highest:
        raise UnexpectedFilesError(
            f"{place}: the score {text!r} is no number from {lowest:g} to {highest:g}"
        )
    return score


def format_rows(task: str, ids: np.ndarray, methods: np.ndarray) -> str:
    """Content of a file of pairs that are to be rated.

    Args:
      task: `sts`, `sis` or `sits`.
      ids: int [P, 2].
      methods: strings [P].
    """
    rows = zip(*ids.T.tolist(), methods.tolist(), strict=True)
    header = ",".join((*SIDES[task], _METHOD))
    return "\n".join([header, *(f"{left},{right},{method}" for left, right, method in rows), ""])
