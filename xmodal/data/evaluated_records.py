"""What evaluations read: images with captions or sentence pairs, rated pairs, lists of positives.

Datasets of sentence pairs, such as SemEval STS, have records of two captions without an image.
Rated pairs and lists of positives come from a dataset's configs `ratings` and `matches`; the rated
pairs of COCO may be the released CxC files instead.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np
from absl import logging
from etils import epath

from data_prep.cxc.cxc_files import read_cxc_ratings
from xmodal.data.columns import RaggedColumn, decode_texts
from xmodal.data.data_config import DataConfig, parse
from xmodal.data.datasets import Source, check_columns, needed_columns, open_beside, open_builder

MATCHES = "matches"
# As named in `data_prep.schema.sentence_pair_features`.
_SENTENCES = ("sentence1", "sentence2")
_PAIR_COLUMNS = (*_SENTENCES, "pair_id", "year", "dataset", "year_average", "score")


def open_captions(config: DataConfig, split: str) -> Source:
    """Opens a split for evaluation, of captioned images or of sentence pairs without images."""
    source = Source(config, split)
    check_columns(config, source.columns, evaluated_columns(config, source.columns))
    return source


def evaluated_columns(config: DataConfig, columns: Collection[str]) -> Collection[str]:
    """Returns those of a dataset's columns that an evaluation split of a config reads."""
    if has_pairs(columns):
        return _PAIR_COLUMNS
    needs = needed_columns(config)
    if config.labels and "captions" not in columns:  # Labeled images, such as those of TFDS.
        return [name for name in needs if name in ("image", *config.labels)]
    return needs


def prepare(config: Mapping[str, Any] | DataConfig, *, splits: Iterable[str] = ()) -> None:
    """Makes sure that a config's dataset and ratings exist; builds them if possible.

    Args:
      config: see `DataConfig`.
      splits: splits that the run will read.

    Raises:
      DatasetMissingError: says which files to put where, and which command to run.
    """
    config = parse(config)
    open_builder(config)
    for split in splits:
        source = open_captions(config, split)
        if source.left_out:
            logging.warning(
                "%s records of the split %s were left out when the dataset was prepared; %s lists "
                "them.",
                f"{source.left_out:,}",
                split,
                source.folder / "left_out.csv",
            )
    for split in ("validation", "test"):
        load_ratings(config, split)


def has_pairs(columns: Collection[str]) -> bool:
    """Returns whether the columns are those of sentence pairs."""
    return set(_SENTENCES) <= set(columns)


def as_captions(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Returns columns of sentence pairs as those of captioned images.

    `image_id` is the id of the pair, `captions` are its two sentences, and `caption_ids` are twice
    the id, and twice the id plus 1. Labels: `score` float32, 0 to 5; `set`, name and year of the
    pair's set ("images2014"; without a year if it is 0); `average`, the year whose mean includes
    the set, 0 for none.
    """
    ids = columns["pair_id"]
    both = np.stack([columns[name] for name in _SENTENCES], axis=1)
    lengths = np.full(len(ids), 2, np.int64)
    numbers = (2 * ids[:, None] + np.arange(2)).astype(np.int32)
    sets = zip(columns["dataset"], columns["year"], strict=True)
    return {
        "image_id": ids,
        "captions": RaggedColumn(both.ravel(), lengths),
        "caption_ids": RaggedColumn(numbers.ravel(), lengths),
        "score": columns["score"],
        "set": np.array(
            [name + (str(year).encode() if year else b"") for name, year in sets], object
        ),
        "average": columns["year_average"],
    }


def load_ratings(
    config: DataConfig, split: str
) -> tuple[dict[str, dict[str, np.ndarray]], dict[str, str]]:
    """Returns the rated pairs of a split by rating, and the hash of their records, if any.

    Each has `left_ids`, `right_ids` int32 [P], `scores` float32 [P] and `methods` strings [P].
    There are none if the dataset has no ratings for this split.
    """
    if config.ratings_dir:
        return read_cxc_ratings(epath.Path(config.ratings_dir), split), {}
    source = open_beside(config, "ratings", split)
    if source is None:
        return {}, {}
    names = {"left_ids": "left_id", "right_ids": "right_id", "scores": "score", "methods": "method"}
    columns = source.get(["rating", *names.values()])
    columns["method"] = np.array(decode_texts(columns["method"]))
    ratings = columns["rating"]
    return {
        rating.decode(): {name: columns[own][ratings == rating] for name, own in names.items()}
        for rating in np.unique(ratings)
    }, source.hashes


def load_matches(config: DataConfig, split: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Returns every matching pair, by direction, `i2t` and `t2i`.

    Each has the ids of queries and of their positives, int32 [P] each. The result is empty if the
    dataset has no such lists for this split. They are built on the first call.
    """
    source = open_beside(config, MATCHES, split)
    if source is None:
        return {}
    columns = source.get(["direction", "query_id", "positive_ids"])
    positives = columns["positive_ids"]
    direction, query = (
        np.repeat(columns[name], positives.lengths) for name in ("direction", "query_id")
    )
    return {
        name.decode(): (query[direction == name], positives.values[direction == name])
        for name in np.unique(direction)
    }
