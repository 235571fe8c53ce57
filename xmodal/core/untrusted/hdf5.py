"""HDF5 from elsewhere: its own numbers, not those of other files."""

import os
from collections.abc import Iterator
from typing import Any, BinaryIO

import h5py
import numpy as np

from xmodal.core.untrusted.archives import most_expanded

# OSError, KeyError, RuntimeError: of h5py; the others: sizes, shapes and types in headers.
HDF5_ERRORS = (
    OSError, LookupError, RuntimeError, MemoryError, OverflowError, TypeError, ValueError,
    AttributeError,
)  # fmt: skip
_NOT_HARD = {h5py.h5l.TYPE_SOFT: "a soft link", h5py.h5l.TYPE_EXTERNAL: "a link to another file"}
# Groups may be in several groups; a tiny file can have billions of paths.
_MOST_CHILDREN = 100_000


class Hdf5File:
    """A file without links but its tree, whose datasets hold their numbers themselves.

    Args:
      source: path or open file.

    Raises:
      Exception: one of `HDF5_ERRORS`; it is damaged, or has a link.
    """

    def __init__(self, source: str | os.PathLike | BinaryIO) -> None:
        self.root = h5py.File(source, "r")
        self._most = self._left = most_expanded(self.root.id.get_filesize())
        self._children = 0
        if problem := self.root.id.links.visit(_problem_of_link, info=True):
            self.root.close()
            raise ValueError(problem)

    def __enter__(self) -> "Hdf5File":
        return self

    def __exit__(self, *_: object) -> None:
        self.root.close()

    def children(self, group: h5py.Group) -> Iterator[tuple[str, Any]]:
        """Yields names and objects of a group.

        Raises:
          Exception: one of `HDF5_ERRORS`; there are too many in the file.
        """
        for name in group:
            self._children += 1
            if self._children > _MOST_CHILDREN:
                raise ValueError(f"its groups have more than {_MOST_CHILDREN:,} members")
            yield name, group[name]

    def read(self, dataset: h5py.Dataset, rows: Any = ()) -> np.ndarray:
        """Returns numbers of a dataset.

        Raises:
          Exception: one of `HDF5_ERRORS`; it is damaged, of objects, too large for its file, or
            its numbers are in another one.
        """
        if not isinstance(dataset, h5py.Dataset):
            raise TypeError("a group in place of a dataset")
        if dataset.external is not None or dataset.is_virtual:
            raise ValueError(f"the numbers of {dataset.name} are in another file")
        if dataset.dtype.hasobject:
            raise TypeError(f"{dataset.name} holds {dataset.dtype}, not numbers")
        if dataset.nbytes > self._most:
            raise ValueError(
                f"{dataset.name} has {dataset.nbytes:,} bytes, more than {self._most:,}"
            )
        return np.asarray(dataset[rows])

    def read_once(self, dataset: h5py.Dataset) -> np.ndarray:
        """Returns a dataset, see `read`; all of them together must not be too large either."""
        self._left -= getattr(dataset, "nbytes", 0)
        if self._left < 0:
            raise ValueError(f"its datasets have more than {self._most:,} bytes")
        return self.read(dataset)


def _problem_of_link(name: bytes, info: Any) -> str | None:
    """Ends the visit with a sentence; h5py cannot pass errors on."""
    if info.type == h5py.h5l.TYPE_HARD:
        return None
    return f"{name.decode(errors='replace')} is {_NOT_HARD.get(info.type, 'an unknown link')}"
