"""Datasets of sentence pairs, such as SemEval STS: records of two captions without an image."""

from collections.abc import Collection, Mapping

import numpy as np

from xmodal.data.columns import RaggedColumn, dense
from xmodal.data.data_config import DataConfig
from xmodal.data.datasets import Source, check_columns, needed_columns

# As named in `data_prep.schema.sentence_pair_features`.
_SENTENCES = ("sentence1", "sentence2")
_COLUMNS = (*_SENTENCES, "pair_id", "year", "dataset", "year_average", "score")


def open_captions(config: DataConfig, split: str) -> Source:
    """Opens a split for evaluation, of captioned images or of sentence pairs without images."""
    source = Source(config, split)
    check_columns(config, source.columns, evaluated_columns(config, source.columns))
    return source


def evaluated_columns(config: DataConfig, columns: Collection[str]) -> Collection[str]:
    """Returns those of a dataset's columns that an evaluation split of a config reads."""
    if has_pairs(columns):
        return _COLUMNS
    needs = needed_columns(config)
    if config.labels and "captions" not in columns:  # Labeled images, such as those of TFDS.
        return [name for name in needs if name in ("image", *config.labels)]
    return needs


def has_pairs(columns: Collection[str]) -> bool:
    """Returns whether the columns are those of sentence pairs."""
    return set(_SENTENCES) <= set(columns)


def as_captions(
    columns: Mapping[str, np.ndarray | RaggedColumn],
) -> dict[str, np.ndarray | RaggedColumn]:
    """Returns columns of sentence pairs as those of captioned images.

    `image_id` is the id of the pair, `captions` are its two sentences, and `caption_ids` are twice
    the id, and twice the id plus 1. Labels: `score` float32, 0 to 5; `set`, name and year of the
    pair's set ("images2014"; without a year if it is 0); `average`, the year whose mean includes
    the set, 0 for none.
    """
    ids = dense(columns["pair_id"])
    both = np.stack([dense(columns[name]) for name in _SENTENCES], axis=1)
    lengths = np.full(len(ids), 2, np.int64)
    numbers = (2 * ids[:, None] + np.arange(2)).astype(np.int32)
    sets = zip(dense(columns["dataset"]), dense(columns["year"]), strict=True)
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
