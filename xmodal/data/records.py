"""Records of ArrayRecord and TFRecord files, read by number."""

import functools
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from etils import epath

from xmodal.base.config import UserError


def read_records(source: Any, rows: np.ndarray, what: str, remedy: str) -> Sequence[bytes]:
    """Reads records by number, in the given order.

    Args:
      source: a data source of `array_record` or TFDS.
      rows: numbers of the records, int64 [N].
      what: what the records are, as the start of an error.
      remedy: what to do about damaged files, as the end of an error.

    Raises:
      UserError: a file is missing, truncated or changed.
    """
    try:
        return source.__getitems__(rows.tolist())
    except RuntimeError as error:  # The only error that the library raises.
        raise UserError(
            f"{what} cannot be read: {str(error).splitlines()[0]}. The file is damaged; {remedy}"
        ) from error


class TFRecords:
    """Records of TFRecord files, the default format of TFDS, by number.

    A record is its length (8 bytes, little endian), a checksum of it (4), the record, and its
    checksum (4). The lengths are read once, when the files are opened; checksums are compared by
    TensorFlow when a record is read.
    """

    def __init__(self, parts: Sequence[Any]) -> None:
        """Finds the records of a split; `parts` are its `file_instructions` of TFDS.

        Raises:
          UserError: a file is missing or truncated, or has another number of records.
        """
        self._places: list[tuple[str, int]] = []
        for part in parts:
            places = _find_records(part.filename)
            if len(places) != part.examples_in_shard:
                raise UserError(
                    f"{part.filename} has {len(places):,} records instead of "
                    f"{part.examples_in_shard:,}; prepare the dataset again."
                )
            stop = None if part.take == -1 else part.skip + part.take
            self._places += places[part.skip : stop]

    def __len__(self) -> int:
        return len(self._places)

    def __getitems__(self, rows: Sequence[int]) -> list[bytes]:
        """Returns the records at the given numbers.

        Raises:
          UserError: a file is missing, or the checksum of a record is not that of its bytes.
        """
        import tensorflow as tf  # Slow to import; the project's own datasets are ArrayRecord.

        # The public API reads these files only from start to end.
        from tensorflow.python.lib.io import tf_record

        # Several threads read at once, and a reader has one position.
        open_reader = functools.cache(tf_record.tf_record_random_reader)
        found = []
        for row in rows:
            path, start = self._places[row]
            try:
                record, _ = open_reader(path).read(start)
            except (tf.errors.OpError, IndexError) as error:
                raise UserError(
                    f"{path} is damaged: {str(error).splitlines()[0]}; prepare the dataset again."
                ) from error
            found.append(record)
        return found


def _find_records(path: str) -> list[tuple[str, int]]:
    """Returns path and position of every record of a file."""
    found, place = [], 0
    try:
        size = epath.Path(path).stat().length
        with epath.Path(path).open("rb") as file:
            while head := file.read(8):
                (length,) = struct.unpack("<Q", head)
                found.append((path, place))
                place += length + 16
                if place > size:
                    break
                file.seek(place)
    except (OSError, struct.error) as error:
        raise UserError(f"{path} cannot be read: {error}; prepare the dataset again.") from error
    if place != size:
        raise UserError(f"{path} is truncated; prepare the dataset again.")
    return found
