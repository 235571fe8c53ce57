"""Features of many items on disk: rows of bfloat16 in one memory-mapped file, found by item id."""

import contextlib
import fcntl
import glob
import json
import os
import shutil
import uuid
import zipfile
from collections.abc import Iterator, Mapping
from typing import BinaryIO

import ml_dtypes
import numpy as np
from absl import logging

from xmodal.config import UserError

_FEATURES, _INDEX, _KEY = "features.bf16", "index.npz", "key.json"
DTYPE = np.dtype(ml_dtypes.bfloat16)


class FeatureStore:
    """The features of items that have one row per token.

    Attributes:
      folder: where they lie.
      key: what they were computed from, by name.
      ids: int32 [M], ascending.
    """

    def __init__(self, folder: str) -> None:
        """Opens what `writing` left at `folder`.

        Raises:
          UserError: files are missing or cut short.
        """
        try:
            with open(os.path.join(folder, _KEY), encoding="utf-8") as file:
                self.key: dict[str, str] = json.load(file)
            with np.load(os.path.join(folder, _INDEX)) as index:
                self.ids, width = index["ids"], int(index["width"])
                self._starts, self._lengths = index["starts"], index["lengths"]
            rows, path = int(self._lengths.sum()), os.path.join(folder, _FEATURES)
            if os.path.getsize(path) != rows * width * DTYPE.itemsize:
                raise OSError(f"{path} is not {rows} rows of {width} numbers")
            self._rows = np.memmap(path, DTYPE, "r", shape=(rows, width))
        except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
            raise UserError(
                f"{folder} holds no complete features ({error}); delete it to have them made again."
            ) from error
        self.folder = folder

    def gather(self, ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """Features of items, padded with zeros.

        Args:
          ids: int32 [...].
          mask: [..., T], 1 on the tokens of each item and 0 behind them.

        Returns:
          bfloat16 [..., T, W].

        Raises:
          KeyError: an id is not stored.
          ValueError: an item has another number of tokens than `mask` says.
        """
        places = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        if (unknown := ids[self.ids[places] != ids]).size:
            raise KeyError(f"{self.folder} has no features of item {unknown[0]}")
        real = mask > 0
        if (wrong := ids[self._lengths[places] != real.sum(axis=-1)]).size:
            raise ValueError(f"{self.folder} has item {wrong[0]} with another number of tokens")
        features = np.zeros((*mask.shape, self._rows.shape[1]), DTYPE)
        # The mask is walked item by item, so the rows of an item stay in their order.
        rows = self._starts[places][..., None] + np.arange(mask.shape[-1])
        features[real] = self._rows[rows[real]]
        return features


class Writer:
    """Takes the features of a known set of items, in any order and each item once."""

    def __init__(self, file: BinaryIO, ids: np.ndarray, width: int) -> None:
        self._file, self._ids, self._width, self._end = file, ids, width, 0
        self._starts, self._lengths = np.full(len(ids), -1, np.int64), np.zeros(len(ids), np.int32)

    def put(self, places: np.ndarray, features: np.ndarray, mask: np.ndarray) -> None:
        """Appends items.

        Args:
          places: int [N], where the items stand in the list of ids.
          features: bfloat16 [N, T, W].
          mask: bool [N, T], True on the tokens that are kept.
        """
        self._file.write(features[mask].tobytes())
        self._lengths[places] = mask.sum(axis=1)
        ends = self._end + np.cumsum(self._lengths[places], dtype=np.int64)
        self._starts[places], self._end = ends - self._lengths[places], ends[-1]

    def index(self) -> dict[str, np.ndarray]:
        """Where everything lies.

        Raises:
          ValueError: an item was never put.
        """
        if (self._starts < 0).any():
            raise ValueError(f"{(self._starts < 0).sum()} items have no features")
        return {
            "ids": self._ids,
            "starts": self._starts,
            "lengths": self._lengths,
            "width": np.int64(self._width),
        }


@contextlib.contextmanager
def writing(
    folder: str, key: Mapping[str, str], ids: np.ndarray, rows: int, width: int
) -> Iterator[Writer]:
    """Makes `folder` appear with all features, or not at all.

    What a killed process left beside it is removed.

    Args:
      folder: where `FeatureStore` will find them.
      key: what the features are computed from.
      ids: int32 [M], ascending.
      rows: of all items together.
      width: W.

    Raises:
      UserError: the disk has not enough room.
    """
    parent, name = os.path.split(os.path.abspath(folder))
    os.makedirs(parent, exist_ok=True)
    with _hidden_folder(parent, name) as (temporary, features):
        needed, free = rows * width * DTYPE.itemsize, shutil.disk_usage(parent).free
        if needed > free:
            raise UserError(
                f"The features need {needed / 2**30:.1f} GiB, {parent} has {free / 2**30:.1f} GiB "
                "left; give config.frozen_cache a folder on a larger disk."
            )
        writer = Writer(features, ids, width)
        yield writer
        features.flush()
        np.savez(os.path.join(temporary, _INDEX), **writer.index())
        with open(os.path.join(temporary, _KEY), "w", encoding="utf-8") as file:
            json.dump(dict(key), file, indent=2)
        try:
            os.rename(temporary, folder)
        except OSError:
            # Another run may have renamed its own copy into place first; the caller checks its key.
            if not os.path.isdir(folder):
                raise


@contextlib.contextmanager
def _hidden_folder(parent: str, name: str) -> Iterator[tuple[str, BinaryIO]]:
    """A new folder with an open file of features; removed at the end if it is still there.

    The file is locked while its writer lives: a folder with another is one of a killed writer.
    """
    temporary = os.path.join(parent, f".{name}.{uuid.uuid4().hex}")
    directory = os.open(parent, os.O_RDONLY)
    try:
        # No one else looks before the new file is locked, where the file system can do that.
        with contextlib.suppress(OSError):
            fcntl.flock(directory, fcntl.LOCK_EX)
        _remove_dead(os.path.join(glob.escape(parent), f".{glob.escape(name)}.{32 * '[0-9a-f]'}"))
        os.mkdir(temporary)
        file = open(os.path.join(temporary, _FEATURES), "wb")  # noqa: SIM115
        _lock(file)
    finally:
        os.close(directory)
    try:
        with file:
            yield temporary, file
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _remove_dead(pattern: str) -> None:
    for folder in glob.glob(pattern):
        try:
            with open(os.path.join(folder, _FEATURES), "r+b") as file:
                is_dead = _lock(file)
        except FileNotFoundError:
            is_dead = True
        if is_dead:
            logging.info("Removing %s, which a killed run left.", folder)
            shutil.rmtree(folder, ignore_errors=True)
        else:
            logging.warning("Another run writes %s; if there is none, delete it.", folder)


def _lock(file: BinaryIO) -> bool:
    """Locks a file until it is closed; False where another has or the file system cannot."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
