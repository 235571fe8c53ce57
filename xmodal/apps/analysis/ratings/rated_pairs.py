"""Rated pairs in memory, from files in the layout of CxC and from prepared datasets."""

import dataclasses
import itertools
import pathlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from data_prep.cxc.rating_files import SCORE, SIDES, file_name, read_ratings
from xmodal.core.errors import UnexpectedFilesError

if TYPE_CHECKING:
    from tensorflow_datasets.core import DatasetBuilder

# Features with the two sentences of a pair, in datasets that store them with the ratings.
_SENTENCES = (("sentence1", "sentence2"), ("left_caption", "right_caption"))
_RATED = ("rating", "left_id", "right_id", "score", "method", "rater_scores", "year", "dataset")


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
    found = {}
    for rating, path in present.items():
        pairs = read_ratings(
            path, rating, released=False, need_scores=need_scores, raters=need_scores
        )
        is_scored = pairs[0].score is not None
        raters = [pair.rater_scores for pair in pairs]
        found[rating] = RatedPairs(
            rating=rating,
            left_ids=np.array([pair.left_id for pair in pairs], np.int64),
            right_ids=np.array([pair.right_id for pair in pairs], np.int64),
            methods=np.array([pair.method for pair in pairs]),
            scores=np.array([pair.score for pair in pairs], np.float32) if is_scored else None,
            rater_scores=_pad(raters) if any(raters) else None,
        )
    return found


def _pad(raters: Iterable[Sequence[float]]) -> np.ndarray:
    """Scores of all pairs as `RatedPairs.rater_scores`."""
    return np.array([*itertools.zip_longest(*raters, fillvalue=np.nan)], np.float32).T


def is_rated(path: pathlib.Path) -> bool:
    """Whether the header of a file has a column of scores."""
    return SCORE in path.read_text(encoding="utf-8-sig").partition("\n")[0].strip().split(",")


def read_prepared(
    dataset: str, config: str | None, data_dir: str | None, split: str
) -> dict[str, RatedPairs]:
    """Reads the ratings of a prepared dataset.

    Args:
      dataset: key of `data_prep.BUILDERS`.
      config: builder config with scores; None for all that are prepared and have any.
      data_dir: where TFDS keeps datasets; None for its default folder.
      split: name of the split.

    Returns:
      Rating -> its pairs. Pairs of a dataset without this column are one rating with its name; if
      sampling methods are not known, methods are the sets that pairs come from.
    """
    from data_prep.prepared import open_configs

    found: dict[str, RatedPairs] = {}
    for builder in open_configs(dataset, config, data_dir):
        if "score" in builder.info.features:
            for rating, pairs in _read_builder(builder, split).items():
                # Configs may add texts or images to the same pairs, and may then lack some pairs.
                if rating not in found or len(pairs) > len(found[rating]):
                    found[rating] = pairs
    if not found:
        raise UnexpectedFilesError(
            f"{dataset} (config {config or 'any that is prepared'}) has no scores"
        )
    # Records are not ordered, but the ratings of CxC are.
    first = [rating for rating in SIDES if rating in found]
    return {rating: found[rating] for rating in [*first, *sorted(found.keys() - SIDES.keys())]}


def read_texts(dataset: str, data_dir: str | None, split: str) -> dict[int, str]:
    """Texts of the captions of a split by id; none if no prepared config has them."""
    from data_prep.prepared import open_configs, read_columns

    for builder in open_configs(dataset, None, data_dir):
        features = builder.info.features
        if {"captions", "caption_ids"} <= set(features) and split in builder.info.splits:
            columns = read_columns(builder, split, ("captions", "caption_ids"))
            ids, texts = (np.concatenate(columns[name]) for name in ("caption_ids", "captions"))
            return {i: text.decode() for i, text in zip(ids.tolist(), texts.tolist(), strict=True)}
    return {}


def _read_builder(builder: "DatasetBuilder", split: str) -> dict[str, RatedPairs]:
    from data_prep.prepared import read_columns

    sentences = next((each for each in _SENTENCES if each[0] in builder.info.features), ())
    columns: dict[str, Any] = read_columns(builder, split, (*_RATED, *sentences))

    def strings(name: str, default: str) -> np.ndarray:
        values = columns.get(name, [default.encode()] * len(columns["score"]))
        return np.array([value.decode() for value in values])

    ratings, methods = strings("rating", builder.name), strings("method", "")
    if "method" not in columns and "dataset" in columns:
        parts = [columns[name].astype(str) for name in ("year", "dataset") if name in columns]
        methods = np.array([" ".join(part) for part in zip(*parts, strict=True)])
    raters = _pad(columns.get("rater_scores", ()))
    texts = None
    if sentences:
        texts = np.array([strings(name, "").tolist() for name in sentences], object).T
    found = {}
    for rating in dict.fromkeys(ratings.tolist()):
        rows = ratings == rating
        rated = raters.size and np.isfinite(raters[rows]).any()
        found[rating] = RatedPairs(
            rating=rating,
            left_ids=columns["left_id"][rows] if "left_id" in columns else None,
            right_ids=columns["right_id"][rows] if "right_id" in columns else None,
            methods=methods[rows],
            scores=columns["score"][rows],
            rater_scores=raters[rows] if rated else None,
            texts=None if texts is None else texts[rows],
        )
    return found
