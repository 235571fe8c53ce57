"""Ids of labels and items: their positions in a gallery, and a hash that identifies labels."""

import hashlib

import numpy as np

from xmodal.core.errors import UserError


class Positions:
    """Maps ids [N] to positions in a gallery; `kind` names the items in messages."""

    def __init__(self, kind: str, ids: np.ndarray) -> None:
        self.kind, self.ids = kind, np.asarray(ids)
        self._order = np.argsort(self.ids, kind="stable")
        self._sorted = self.ids[self._order]
        twice = self._sorted[1:][self._sorted[1:] == self._sorted[:-1]]
        if len(twice):
            raise UserError(f"{self.kind} id {twice[0]} occurs twice in the gallery.")

    def find(self, wanted: np.ndarray) -> np.ndarray:
        """int64, position of every wanted id; -1 for ids that are not in the gallery."""
        if not len(self.ids):
            return np.full(np.shape(wanted), -1)
        at = np.minimum(np.searchsorted(self._sorted, wanted), len(self.ids) - 1)
        return np.where(self._sorted[at] == wanted, self._order[at], -1)

    def __call__(self, wanted: np.ndarray) -> np.ndarray:
        """int64, position of every wanted id."""
        found = self.find(wanted)
        missing = np.asarray(wanted)[found < 0]
        if len(missing):
            raise UserError(
                f"{len(missing)} labels name {self.kind}s that are not among the {len(self.ids)} "
                f"of this split; the first is {self.kind} id {missing[0]}: labels and items must "
                "be of the same split."
            )
        return found


class LabelHash:
    """Hashes labels by id; the order of the labels does not matter."""

    def __init__(self) -> None:
        self._sha = hashlib.sha256()

    def add(self, name: str, *columns: np.ndarray) -> None:
        """Adds a table of columns [P]: integers, or human scores as floating-point numbers."""
        order = np.lexsort(columns[::-1])
        self._sha.update(f"{name} {len(columns)} x {len(order)};".encode())
        for column in columns:
            dtype = "<f4" if np.issubdtype(column.dtype, np.floating) else "<i8"
            self._sha.update(np.ascontiguousarray(column[order], dtype).tobytes())

    def digits(self) -> str:
        """The first 16 hexadecimal digits of the SHA-256 of everything added."""
        return self._sha.hexdigest()[:16]
