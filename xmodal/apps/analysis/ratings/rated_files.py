"""Files of pairs, rated or still to be rated, in the layout of Crisscrossed Captions."""

import pathlib

import numpy as np

from data_prep.cxc.rating_files import METHOD, SCORE, SIDES, file_name, scan_ratings
from data_prep.reading.csv_files import without_bad_rows
from xmodal.apps.analysis.ratings.rated_pairs import RatedPairs
from xmodal.core.errors import UnexpectedFilesError


def read_folder(
    folder: pathlib.Path, split: str, *, need_scores: bool = True
) -> dict[str, RatedPairs]:
    """Reads the files of a split.

    Args:
      folder: folder of the files.
      split: `train`, `validation` or `test`.
      need_scores: whether pairs that are not rated yet are an error.

    Returns:
      Rating -> its pairs, for every file that exists.

    Raises:
      FileNotFoundError: none of them exists.
      UnexpectedFilesError: a file is empty or damaged, a row is not a rated pair, or scores are
        missing.
    """
    files = {rating: folder / file_name(rating, split) for rating in SIDES}
    present = {rating: path for rating, path in files.items() if path.exists()}
    if not present:
        wanted = ", ".join(path.name for path in files.values())
        raise FileNotFoundError(f"{folder} has none of {wanted}; name another folder or split")
    return {rating: _read_file(path, rating, need_scores) for rating, path in present.items()}


def is_rated(path: pathlib.Path) -> bool:
    """Whether the header of a file has a column of scores."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        return SCORE in file.readline().strip().split(",")


def _read_file(path: pathlib.Path, rating: str, need_scores: bool) -> RatedPairs:
    rows = scan_ratings(path, rating, released=False, need_scores=need_scores)
    pairs = list(without_bad_rows(rows, path))
    if not pairs:
        raise UnexpectedFilesError(f"{path} has no pairs; download or make it again")
    scores = [pair.score for pair in pairs]
    return RatedPairs(
        rating=rating,
        left_ids=np.array([pair.left_id for pair in pairs], np.int64),
        right_ids=np.array([pair.right_id for pair in pairs], np.int64),
        methods=np.array([pair.method for pair in pairs]),
        scores=None if scores[0] is None else np.array(scores, np.float32),
    )


def format_rows(rating: str, ids: np.ndarray, methods: np.ndarray) -> str:
    """Content of a file of pairs to be rated.

    Args:
      rating: `sts`, `sis` or `sits`.
      ids: int [P, 2].
      methods: strings [P].
    """
    rows = zip(*ids.T.tolist(), methods.tolist(), strict=True)
    header = ",".join((*SIDES[rating], METHOD))
    return "\n".join([header, *(f"{left},{right},{method}" for left, right, method in rows), ""])
