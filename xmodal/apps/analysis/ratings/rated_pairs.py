"""Rated pairs in memory, and their files in the layout of Crisscrossed Captions."""

import dataclasses
import pathlib

import numpy as np

from data_prep.cxc.rating_files import METHOD, SCORE, SIDES, file_name, read_ratings
from xmodal.core.errors import UnexpectedFilesError


@dataclasses.dataclass(frozen=True)
class RatedPairs:
    """Pairs of one rating.

    Attributes:
      rating: `sts`, `sis`, `sits`, or another name.
      left_ids: int64 [P], captions for `sts` and `sits`, images for `sis`; None if the dataset only
        has the texts of pairs.
      right_ids: int64 [P], images for `sis` and `sits`, or None.
      methods: strings [P], how the pairs were sampled.
      scores: float32 [P], means over raters; None for pairs that are not rated.
      rater_scores: float32 [P, R], NaN where a pair has fewer raters; None if only means are known.
      texts: the two sentences of every pair, strings [P, 2], or None.
    """

    rating: str
    left_ids: np.ndarray | None
    right_ids: np.ndarray | None
    methods: np.ndarray
    scores: np.ndarray | None
    rater_scores: np.ndarray | None = None
    texts: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.methods)

    def by_method(self) -> dict[str, np.ndarray]:
        """Sampling method -> mask of its pairs, bool [P], the most frequent method first."""
        names, counts = np.unique(self.methods, return_counts=True)
        order = np.argsort(-counts, kind="stable")
        return {str(name): self.methods == name for name in names[order]}


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
    pairs = read_ratings(path, rating, released=False, need_scores=need_scores)
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
