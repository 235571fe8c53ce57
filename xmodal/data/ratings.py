"""Rated pairs for evaluation: from a dataset's `ratings` config or from the released CxC files."""

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds
from etils import epath

import data_prep
from xmodal.cxc_files import read_cxc_ratings
from xmodal.data.config import DataConfig
from xmodal.data.sources import hashes_of, open_builder


def load_ratings(config: DataConfig, split: str) -> dict[str, dict[str, np.ndarray]]:
    """Rated pairs of a split by task.

    Returns:
      For each task `left_ids`, `right_ids` int32 [P], `scores` float32 [P] and `methods` strings
      [P]; empty if the dataset has no ratings of this split.
    """
    if config.ratings_dir:
        return read_cxc_ratings(epath.Path(config.ratings_dir), split)
    if _has_ratings(config):
        return _read_rating_records(config, split)
    return {}


def rating_hashes(config: DataConfig, split: str) -> dict[str, str]:
    """The hash of the rated pairs, if they are records of a prepared dataset; else nothing."""
    if config.ratings_dir or not _has_ratings(config):
        return {}
    builder = open_builder(config, "ratings")
    return hashes_of(builder, split) if split in builder.info.splits else {}


def _has_ratings(config: DataConfig) -> bool:
    return "ratings" in data_prep.builder_class(config.dataset).builder_configs


def _read_rating_records(config: DataConfig, split: str) -> dict[str, dict[str, np.ndarray]]:
    builder = open_builder(config, "ratings")
    if split not in builder.info.splits:
        return {}
    source = builder.as_data_source(
        split, deserialize_method=tfds.decode.DeserializeMethod.RAW_BYTES
    ).data_source
    dtypes = {"left_id": tf.int64, "right_id": tf.int64, "score": tf.float32}
    dtypes |= {"task": tf.string, "method": tf.string}
    records = tf.constant(source.__getitems__(range(len(source))))
    pairs = tf.io.parse_example(
        records, {key: tf.io.FixedLenFeature([], dtype) for key, dtype in dtypes.items()}
    )
    columns = {
        "left_ids": pairs["left_id"].numpy(),
        "right_ids": pairs["right_id"].numpy(),
        "scores": pairs["score"].numpy(),
        "methods": pairs["method"].numpy().astype(str),
    }
    tasks = pairs["task"].numpy().astype(str)
    return {
        str(task): _to_arrays({key: column[tasks == task] for key, column in columns.items()})
        for task in sorted(set(tasks))
    }


def _to_arrays(columns: dict[str, list | np.ndarray]) -> dict[str, np.ndarray]:
    dtypes = {"left_ids": np.int32, "right_ids": np.int32, "scores": np.float32, "methods": str}
    return {key: np.asarray(column, dtypes[key]) for key, column in columns.items()}
