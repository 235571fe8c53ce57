"""Frozen features as records, written once and then read by number like any other column.

A folder has the features of all images or all captions of a split in one ArrayRecord file. The
record of an item is its array as bytes; images are in the order of the split's records, captions
in the same order and, within a record, as stored. `metadata.json` identifies the weights and inputs
of the features.
"""

import contextlib
import dataclasses
import functools
import json
import os
from collections.abc import Iterable, Mapping

import jax
import ml_dtypes
import numpy as np
from array_record.python import array_record_data_source, array_record_module

from xmodal.core.errors import UserError
from xmodal.core.files import new_folder
from xmodal.data.columns import read_records
from xmodal.data.mined_negatives import mined_name
from xmodal.data.pixels.regions import pad_rows

IMAGE_FEATURES, TEXT_FEATURES = "image_features", "text_features"
DTYPE = np.dtype(ml_dtypes.bfloat16)

_RECORDS, _METADATA = "features.array_record", "metadata.json"
# Column of frozen features -> the raw column it replaces.
_REPLACES = {IMAGE_FEATURES: "image", TEXT_FEATURES: "text_ids"}


@dataclasses.dataclass(frozen=True)
class FeatureReader:
    """Frozen features of the items of a split.

    Attributes:
      folder: see `write_features`.
      name: column of the batch, `image_features` or `text_features`.
      key: hashes of the weights and inputs of the features, by name, and their pooling, if any.
      count: number of items.
      rows: largest number of rows T of an item.
      width: W.
    """

    folder: str
    name: str
    key: Mapping[str, str]
    count: int
    rows: int
    width: int

    def read(self, items: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
        """Reads the features of items.

        Args:
          items: numbers of the items, int64 [...].
          length: T of the result; longer items are cut.

        Returns:
          Features bfloat16 [..., T, W], zero past the end of an item, and a mask bool [..., T].
        """
        records = read_records(self._source, items.ravel(), self.folder)
        arrays = [np.frombuffer(record, DTYPE).reshape(-1, self.width) for record in records]
        features, mask = pad_rows(arrays, length)
        shape = (*items.shape, length)
        return features.reshape(*shape, self.width), mask.reshape(shape)

    def read_all(self, items: np.ndarray) -> dict[str, np.ndarray]:
        """Returns the features of items as the column of a batch, with all rows; see `read`."""
        return {self.name: self.read(items, self.rows)[0]}

    def replace_spec(
        self, spec: Mapping[str, jax.ShapeDtypeStruct]
    ) -> dict[str, jax.ShapeDtypeStruct]:
        """Returns the columns of a batch with the features instead of the raw column.

        Texts keep the length of their ids, and images the number of regions, if it varies.
        """
        own = _REPLACES[self.name]
        names = {own: self.name, mined_name(own): mined_name(self.name)}
        rows = spec["image_mask"].shape[1] if "image_mask" in spec else self.rows
        found = {name: column for name, column in spec.items() if name not in names}
        for raw in names.keys() & spec.keys():
            shape = spec[raw].shape
            if self.name == IMAGE_FEATURES:
                shape = (*shape[: 1 if raw == own else 2], rows)
            found[names[raw]] = jax.ShapeDtypeStruct((*shape, self.width), DTYPE)
        return found

    @functools.cached_property
    def _source(self) -> array_record_data_source.ArrayRecordDataSource:
        return array_record_data_source.ArrayRecordDataSource(os.path.join(self.folder, _RECORDS))


def open_features(folder: str) -> FeatureReader:
    """Opens the folder that `write_features` wrote."""
    try:
        with open(os.path.join(folder, _METADATA), encoding="utf-8") as file:
            return FeatureReader(folder, **json.load(file))
    except (OSError, ValueError, TypeError) as error:
        raise UserError(
            f"{folder} has no complete features ({error}); delete it to compute them again."
        ) from error


def write_features(
    folder: str,
    name: str,
    key: Mapping[str, str],
    arrays: Iterable[np.ndarray],
) -> None:
    """Writes features; the folder is written atomically.

    Unfinished folders of killed writers are removed.

    Args:
      folder: folder to write; if another writer finishes first, its folder is kept.
      name: `image_features` or `text_features`.
      key: hashes of the weights and inputs of the features, by name.
      arrays: one [t, W] per item of the split, in the order of the items; stored as bfloat16.
    """
    count = rows = width = 0
    try:
        with new_folder(folder) as temporary:
            path = os.fspath(temporary / _RECORDS)
            # One record per chunk: training reads items in random order.
            writer = array_record_module.ArrayRecordWriter(path, "group_size:1,uncompressed")
            with contextlib.closing(writer):
                for array in arrays:
                    writer.write(np.ascontiguousarray(array, DTYPE).tobytes())
                    count, rows, width = count + 1, max(rows, array.shape[0]), array.shape[1]
            sizes = {"count": count, "rows": rows, "width": width}
            metadata = {"name": name, "key": dict(key)} | sizes
            (temporary / _METADATA).write_text(json.dumps(metadata, indent=2))
    except OSError:
        # Another run may have finished first; the caller names folders by their keys.
        if not os.path.isdir(folder):
            raise
