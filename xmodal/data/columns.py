"""The columns of a dataset: how records store them, and the record parser."""

import dataclasses
import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import tensorflow_datasets as tfds

from data_prep.reading.example_records import read_values, stack

STRING = np.dtype(object)


class RaggedColumn(NamedTuple):
    """Rows of different lengths.

    Attributes:
      values: all rows, concatenated.
      lengths: int64 [N].
    """

    values: np.ndarray
    lengths: np.ndarray

    @property
    def starts(self) -> np.ndarray:
        """Where each row starts in `values`, int64 [N]."""
        return np.cumsum(self.lengths) - self.lengths


def ragged(column: np.ndarray | RaggedColumn) -> RaggedColumn:
    """Returns a column whose rows differ in length, for type checkers."""
    assert isinstance(column, RaggedColumn)
    return column


def dense(column: np.ndarray | RaggedColumn) -> np.ndarray:
    """Returns a column whose rows have one shape, for type checkers."""
    assert isinstance(column, np.ndarray)
    return column


def decode_texts(stored: np.ndarray) -> list[str]:
    """Returns the texts of a column, UTF-8 bytes of any shape, in one list."""
    return [text.decode("utf-8", "ignore") for text in stored.flat]


@dataclasses.dataclass(frozen=True)
class Column:
    """One feature of a dataset.

    Attributes:
      dtype: type of its values; `STRING` for bytes of texts and encoded images.
      shape: shape in one record; None for a dimension that varies.
      is_raw: whether records hold the values as one string of bytes.
      is_picture: whether values are encoded images.
    """

    dtype: np.dtype
    shape: tuple[int | None, ...] = ()
    is_raw: bool = False
    is_picture: bool = False

    @property
    def is_ragged(self) -> bool:
        """Whether records differ in length."""
        return None in self.shape

    @property
    def fixed_shape(self) -> tuple[int, ...]:
        """The dimensions that do not vary: the shape of one record, or of one of its rows."""
        return tuple(length for length in self.shape if length is not None)

    def decode(self, values: np.ndarray, lengths: np.ndarray) -> np.ndarray | RaggedColumn:
        """Returns stored values as [N, *shape], or `RaggedColumn` if the length varies.

        Args:
          values: see `read_values`.
          lengths: see `read_values`.

        Raises:
          ValueError: a record has another number of values than the shape.
        """
        if self.is_raw:
            return self._decode_bytes(stack(values, lengths, ()))
        values = values.astype(self.dtype)
        if not self.is_ragged:
            return stack(values, lengths, self.fixed_shape)
        rows = values.reshape(-1, *self.fixed_shape)
        return RaggedColumn(rows, lengths // math.prod(self.fixed_shape))

    def _decode_bytes(self, stored: np.ndarray) -> np.ndarray | RaggedColumn:
        row_shape = [-1 if length is None else length for length in self.shape]
        rows = [np.frombuffer(row, self.dtype).reshape(row_shape) for row in stored]
        if not self.is_ragged:
            return np.stack(rows)
        return RaggedColumn(np.concatenate(rows), np.array([len(row) for row in rows], np.int64))


def describe(features: tfds.features.FeaturesDict) -> dict[str, Column]:
    """Returns the columns of a dataset that batches can have, by name."""
    columns = {}
    for name, feature in features.items():
        if isinstance(feature, tfds.features.Image):
            columns[name] = Column(STRING, is_picture=True)
        elif isinstance(feature, tfds.features.Text):
            columns[name] = Column(STRING)
        elif isinstance(feature, tfds.features.Sequence):
            if not feature.feature.shape:
                columns[name] = Column(np.dtype(feature.np_dtype), (None,))
        elif isinstance(feature, tfds.features.Tensor):
            is_raw = _is_raw(feature)
            columns[name] = Column(np.dtype(feature.np_dtype), tuple(feature.shape), is_raw)
    return columns


def parse(
    records: np.ndarray, columns: Mapping[str, Column]
) -> dict[str, np.ndarray | RaggedColumn]:
    """Parses serialized `tf.train.Example`s.

    Args:
      records: bytes [N].
      columns: columns to parse.

    Returns:
      Column by name: [N, *shape], or `RaggedColumn` if the length varies.
    """
    stored = {name: STRING if each.is_raw else each.dtype for name, each in columns.items()}
    found = read_values(records, stored)
    return {name: column.decode(*found[name]) for name, column in columns.items()}


def _is_raw(feature: tfds.features.Tensor) -> bool:
    """Returns whether records hold the numbers of a feature as bytes (`encoding="bytes"`)."""
    stored = np.dtype(feature.get_serialized_info().np_dtype)
    return np.dtype(feature.np_dtype) != STRING and stored == STRING
