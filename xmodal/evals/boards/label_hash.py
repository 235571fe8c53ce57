"""A short name for a set of labels, so that numbers on different labels are never compared."""

import hashlib

import numpy as np


class LabelHash:
    """Gathers labels by id; the same labels in any order give the same digits."""

    def __init__(self) -> None:
        self._sha = hashlib.sha256()

    def add(self, name: str, *columns: np.ndarray) -> None:
        """Takes in one table.

        Args:
          name: of the rows.
          *columns: [P] each; integers, or human scores as floating point.
        """
        order = np.lexsort(columns[::-1])
        self._sha.update(f"{name} {len(columns)} x {len(order)};".encode())
        for column in columns:
            dtype = "<f4" if np.issubdtype(column.dtype, np.floating) else "<i8"
            self._sha.update(np.ascontiguousarray(column[order], dtype).tobytes())

    def digits(self) -> str:
        """The first 16 hexadecimal digits of the SHA-256 of all that was added."""
        return self._sha.hexdigest()[:16]
