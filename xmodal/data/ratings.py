"""Rated pairs and lists of positives, from a dataset's configs `ratings` and `matches`.

The rated pairs of COCO may be the released CxC files instead.
"""

import numpy as np
from etils import epath

from data_prep.cxc.cxc_files import read_cxc_ratings
from xmodal.data.columns import dense, ragged
from xmodal.data.data_config import DataConfig
from xmodal.data.datasets import open_beside

_RATINGS = "ratings"
MATCHES = "matches"
_COLUMNS = ("direction", "query_id", "positive_ids")


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


def load_matches(config: DataConfig, split: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Returns every matching pair, by direction, `i2t` and `t2i`.

    Each has the ids of queries and of their positives, int32 [P] each. The result is empty if the
    dataset has no such lists for this split. They are built on the first call.
    """
    source = open_beside(config, MATCHES, split)
    if source is None:
        return {}
    columns = source.get(_COLUMNS)
    directions, queries = (dense(columns[name]) for name in _COLUMNS[:2])
    positives = ragged(columns["positive_ids"])
    direction = np.repeat(directions, positives.lengths)
    query = np.repeat(queries, positives.lengths)
    return {
        name.decode(): (query[direction == name], positives.values[direction == name])
        for name in np.unique(directions)
    }
