"""The columns of a dataset: how records store them, the record parser, and their Parquet file.

All columns of a split except images are also in one Parquet file beside the records. Captions and
labels are a thousandth of the bytes of a dataset with images. Vocabularies, caption counts,
evaluation splits and text-only training read this file.
"""

import dataclasses
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import tensorflow_datasets as tfds
from absl import logging
from etils import epath

from data_prep.reading.example_records import read_values
from xmodal.core.errors import UserError
from xmodal.core.files import replacing

STRING = np.dtype(object)
Stored = tuple[np.ndarray, np.ndarray]
"""Values of records, one after another, and their number in each record, int64 [N]."""


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

    def decode(self, values: np.ndarray, lengths: np.ndarray) -> Any:
        """Returns stored values as [N, *shape], or `RaggedColumn` if the length varies.

        Args:
          values: see `Stored`.
          lengths: see `Stored`.
        """
        if self.is_raw:
            lengths = np.fromiter(map(len, values), np.int64) // self.dtype.itemsize
            values = np.frombuffer(b"".join(values), self.dtype)
        values = values.astype(self.dtype)
        if not self.is_ragged:
            return values.reshape(len(lengths), *self.fixed_shape)
        rows = values.reshape(-1, *self.fixed_shape)
        return RaggedColumn(rows, lengths // math.prod(self.fixed_shape))


def describe(features: tfds.features.FeaturesDict) -> dict[str, Column]:
    """Returns the columns of a dataset that batches can have, by name."""
    columns = {}
    for name, feature in features.items():
        if isinstance(feature, tfds.features.Image):
            columns[name] = Column(STRING, is_picture=True)
        elif isinstance(feature, tfds.features.Sequence):
            if not feature.feature.shape:
                columns[name] = Column(np.dtype(feature.np_dtype), (None,))
        elif isinstance(feature, tfds.features.Tensor):
            dtype, stored = np.dtype(feature.np_dtype), feature.get_serialized_info().np_dtype
            is_raw = dtype != STRING == np.dtype(stored)  # `encoding="bytes"`.
            columns[name] = Column(dtype, tuple(feature.shape), is_raw)
    return columns


def parse(records: Iterable[bytes], columns: Mapping[str, Column]) -> dict[str, Stored]:
    """Returns the stored values of columns in N serialized `tf.train.Example`s."""
    stored = {name: STRING if each.is_raw else each.dtype for name, each in columns.items()}
    return read_values(records, stored)


def read_records(source: Any, rows: np.ndarray, folder: os.PathLike | str) -> Sequence[bytes]:
    """Reads records by number, in the given order.

    Args:
      source: a data source of `array_record` or TFDS.
      rows: numbers of the records, int64 [N].
      folder: the folder of the files, for errors.
    """
    try:
        return source.__getitems__(rows.tolist())
    except RuntimeError as error:  # The only error that the library raises.
        reason = str(error).splitlines()[0]
        raise UserError(
            f"A record of {folder} is damaged ({reason}): delete the folder to make it again."
        ) from error


def load_table(
    path: epath.Path,
    blocks: Iterable[Mapping[str, Stored]],
) -> pa.Table:
    """Returns the stored values of a split, lists with one row per record.

    Args:
      path: path of the Parquet file, which is written first if it does not exist or is damaged.
      blocks: stored values of all records in order, read only if the file has to be written.
    """
    if path.exists():
        try:
            with path.open("rb") as file:
                # `pq.read_table` would also import pyarrow's reader of folders.
                opened = pq.ParquetFile(file, page_checksum_verification=True)
                return opened.read().combine_chunks()
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            logging.warning("%s is damaged, and written again: %s", path, error)
    table = pa.concat_tables(
        pa.table({name: _to_arrow(*column) for name, column in block.items()}) for block in blocks
    )
    try:
        with replacing(path) as file:
            pq.write_table(table, file, write_page_checksum=True)
    except OSError as error:
        logging.warning("%s is not stored for later runs: %s", path, error)
    return table.combine_chunks()


def take(
    table: pa.Table, columns: Mapping[str, Column], rows: np.ndarray | None = None
) -> dict[str, Any]:
    """Returns columns of a table by name.

    Args:
      table: see `load_table`.
      columns: columns to return.
      rows: int64 [N], record numbers; None for all.

    Returns:
      [N, *shape], or `RaggedColumn` if the length varies.
    """
    table = table.select(list(columns))
    if rows is not None:
        table = table.take(pa.array(rows))
    found = {}
    for name, column in columns.items():
        lists = table[name].combine_chunks()
        values = lists.flatten().to_numpy(zero_copy_only=False)
        lengths = lists.value_lengths().to_numpy(zero_copy_only=False)
        found[name] = column.decode(values, lengths.astype(np.int64))
    return found


def _to_arrow(values: np.ndarray, lengths: np.ndarray) -> pa.Array:
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    kind = pa.binary() if values.dtype == STRING else None
    return pa.ListArray.from_arrays(pa.array(ends), pa.array(values, kind))
