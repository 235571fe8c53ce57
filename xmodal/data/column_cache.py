"""All columns of a split except images, stored in one Parquet file beside the records.

Captions and labels are a thousandth of the bytes of a dataset with images. Vocabularies, caption
counts, evaluation splits and text-only training read this file.
"""

import math
from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from absl import logging
from etils import epath

from xmodal.core.atomic import replacing
from xmodal.data.columns import STRING, Column, RaggedColumn

Block = Mapping[str, np.ndarray | RaggedColumn]


def load_table(
    path: epath.Path, columns: Mapping[str, Column], blocks: Iterable[Block]
) -> pa.Table:
    """Returns the columns of a split, one row per record.

    Args:
      path: path of the Parquet file, which is written first if it does not exist or is damaged.
      columns: columns of the file.
      blocks: columns of all records in order, read only if the file has to be written.
    """
    if path.exists():
        try:
            with path.open("rb") as file:
                # `pq.read_table` would also import pyarrow's reader of folders.
                opened = pq.ParquetFile(file, page_checksum_verification=True)
                return opened.read().combine_chunks()
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            logging.warning("%s is damaged, and written again: %s", path, error)
    table = pa.concat_tables(_to_table(block, columns) for block in blocks)
    try:
        with replacing(path) as file:
            pq.write_table(table, file, write_page_checksum=True)
    except OSError as error:
        logging.warning("%s is not stored for later runs: %s", path, error)
    return table.combine_chunks()


def take(
    table: pa.Table, columns: Mapping[str, Column], rows: np.ndarray | None = None
) -> dict[str, np.ndarray | RaggedColumn]:
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
        table = table.take(pa.array(rows)).combine_chunks()
    return {name: _to_numpy(table[name], column) for name, column in columns.items()}


def _to_table(block: Block, columns: Mapping[str, Column]) -> pa.Table:
    return pa.table({name: _to_arrow(block[name], column) for name, column in columns.items()})


def _to_arrow(values: np.ndarray | RaggedColumn, column: Column) -> pa.Array:
    kind = pa.binary() if column.dtype == STRING else pa.from_numpy_dtype(column.dtype)
    if isinstance(values, RaggedColumn):
        ends = np.concatenate([[0], np.cumsum(values.lengths)]).astype(np.int32)
        return pa.ListArray.from_arrays(pa.array(ends), pa.array(values.values, kind))
    array = pa.array(values.reshape(-1), kind)
    if column.shape:
        return pa.FixedSizeListArray.from_arrays(array, math.prod(column.fixed_shape))
    return array


def _to_numpy(chunked: pa.ChunkedArray, column: Column) -> np.ndarray | RaggedColumn:
    array = chunked.combine_chunks()
    lengths = None
    if column.shape:
        lengths = array.value_lengths() if column.is_ragged else None
        array = array.flatten()
    values = array.to_numpy(zero_copy_only=False)
    if lengths is not None:
        return RaggedColumn(values, lengths.to_numpy(zero_copy_only=False).astype(np.int64))
    return values.reshape(-1, *column.shape) if column.shape else values
