"""Rated pairs for evaluation: from a dataset's `ratings` config or from the released CxC files."""

import csv
import io
import re

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds
from etils import epath

import data_prep
from xmodal.data.config import DataConfig
from xmodal.data.sources import open_builder
from xmodal.options import UserError

# Task -> the columns of its file that hold the left and the right side.
_CXC_COLUMNS = {
    "sts": ("caption1", "caption2"),
    "sis": ("image1", "image2"),
    "sits": ("caption", "image"),
}
_CXC_SPLITS = {"validation": "val", "test": "test"}
_CXC_ID = re.compile(r"COCO_val2014(?::sentid:|_)(\d+)(?:\.jpg)?")
_CXC_HOME = "https://github.com/google-research-datasets/Crisscrossed-Captions/tree/master/data"


def load_ratings(config: DataConfig, split: str) -> dict[str, dict[str, np.ndarray]]:
    """Rated pairs of a split by task.

    Returns:
      For each task `left_ids`, `right_ids` int32 [P], `scores` float32 [P] and `methods` strings
      [P]; empty if the dataset has no ratings of this split.
    """
    if config.ratings_dir:
        return read_cxc_ratings(epath.Path(config.ratings_dir), split)
    if "ratings" in data_prep.builder_class(config.dataset).builder_configs:
        return _read_rating_records(config, split)
    return {}


def read_cxc_ratings(folder: epath.Path, split: str) -> dict[str, dict[str, np.ndarray]]:
    """Reads the released `{sts,sis,sits}_{val,test}.csv` of Crisscrossed Captions.

    Args:
      folder: where the files lie.
      split: `validation` or `test`; other splits have no ratings.

    Raises:
      UserError: a file is missing or not what was released.
    """
    if split not in _CXC_SPLITS:
        return {}
    return {
        task: _read_cxc_file(folder / f"{task}_{_CXC_SPLITS[split]}.csv", *columns)
        for task, columns in _CXC_COLUMNS.items()
    }


def _read_cxc_file(path: epath.Path, left: str, right: str) -> dict[str, np.ndarray]:
    if not path.exists():
        raise UserError(f"{path} does not exist; take the CxC ratings from {_CXC_HOME}")
    with io.StringIO(path.read_text(encoding="utf-8"), newline="") as file:
        rows = csv.DictReader(file)
        wanted = [left, right, "agg_score", "sampling_method"]
        if missing := [name for name in wanted if name not in (rows.fieldnames or [])]:
            raise UserError(f"{path} lacks the column {', '.join(missing)}; see {_CXC_HOME}")
        columns: dict[str, list] = {"left_ids": [], "right_ids": [], "scores": [], "methods": []}
        for row in rows:
            try:
                columns["left_ids"].append(_cxc_id(row[left]))
                columns["right_ids"].append(_cxc_id(row[right]))
                columns["scores"].append(float(row["agg_score"]))
            except (TypeError, ValueError) as error:
                raise UserError(
                    f"{path} line {rows.line_num}: {error}; take the file again from {_CXC_HOME}"
                ) from error
            columns["methods"].append(row["sampling_method"])
    return _to_arrays(columns)


def _cxc_id(name: str) -> int:
    match = _CXC_ID.fullmatch(name)
    if match is None:
        raise UserError(f"{name!r} is not a COCO image or caption name")
    return int(match[1])


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
