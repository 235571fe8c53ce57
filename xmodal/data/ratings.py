"""Rated pairs for evaluation, from a dataset's `ratings` config or the released CxC files."""

import numpy as np
from etils import epath

from data_prep.cxc.cxc_files import read_cxc_ratings
from xmodal.data.columns import dense
from xmodal.data.data_config import DataConfig
from xmodal.data.datasets import open_beside

_RATINGS = "ratings"


def load_ratings(config: DataConfig, split: str) -> dict[str, dict[str, np.ndarray]]:
    """Returns the rated pairs of a split by rating.

    Each has `left_ids`, `right_ids` int32 [P], `scores` float32 [P] and `methods` strings [P]. The
    result is empty if the dataset has no ratings for this split.
    """
    if config.ratings_dir:
        return read_cxc_ratings(epath.Path(config.ratings_dir), split)
    source = open_beside(config, _RATINGS, split)
    if source is None:
        return {}
    columns = source.get(["rating", "left_id", "right_id", "score", "method"])
    ratings = np.char.decode(dense(columns["rating"]).astype(bytes), "utf-8")
    pairs = {
        "left_ids": dense(columns["left_id"]),
        "right_ids": dense(columns["right_id"]),
        "scores": dense(columns["score"]),
        "methods": np.char.decode(dense(columns["method"]).astype(bytes), "utf-8"),
    }
    return {
        str(rating): {name: column[ratings == rating] for name, column in pairs.items()}
        for rating in np.unique(ratings)
    }


def rating_hashes(config: DataConfig, split: str) -> dict[str, str]:
    """Returns the hash of the rated pairs if they are records of a prepared dataset, else {}."""
    source = None if config.ratings_dir else open_beside(config, _RATINGS, split)
    return {} if source is None else source.hashes
