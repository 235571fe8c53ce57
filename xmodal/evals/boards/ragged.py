"""Lists of different lengths, one per query, in two flat arrays."""

import dataclasses
import functools

import numpy as np


@dataclasses.dataclass(frozen=True)
class Ragged:
    """Row i holds `values[offsets[i]:offsets[i + 1]]` (compressed sparse rows).

    Attributes:
      offsets: int64 [Q + 1], starts at 0, never falls.
      values: int32 [P], not negative; ascending and distinct within a row when built by
        `from_pairs`.
    """

    offsets: np.ndarray
    values: np.ndarray

    @classmethod
    def from_pairs(cls, rows: np.ndarray, values: np.ndarray, num_rows: int) -> "Ragged":
        """Groups (row, value) pairs by row; pairs given twice are kept once.

        Args:
          rows: integers [P] in 0..num_rows-1, in any order.
          values: integers [P], not negative.
          num_rows: Q; rows without a pair are empty.
        """
        stride = int(values.max()) + 1 if len(values) else 1
        keys = np.unique(np.asarray(rows, np.int64) * stride + values)
        counts = np.bincount(keys // stride, minlength=num_rows)
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return cls(offsets, (keys % stride).astype(np.int32))

    @functools.cached_property
    def lengths(self) -> np.ndarray:
        """int64 [Q], number of values in every row."""
        return np.diff(self.offsets)

    def contains(self, rows: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Whether every item is among the values of its row.

        Args:
          rows: integers in 0..Q-1.
          items: integers of a shape that broadcasts with `rows`; a negative one is in no row.

        Returns:
          bool, of the broadcast shape.
        """
        keys, stride = self._keys
        items = np.asarray(items)
        # One key per pair; an item beyond the stride would spell a pair of another row.
        wanted = np.asarray(rows, np.int64) * stride + items
        found = keys[np.searchsorted(keys[:-1], wanted)] == wanted
        return found & (items >= 0) & (items < stride)

    @functools.cached_property
    def _keys(self) -> tuple[np.ndarray, int]:
        """Ascending keys row * stride + value, closed by one that is no pair; the stride."""
        stride = int(self.values.max(initial=0)) + 1
        keys = np.repeat(np.arange(len(self.lengths)), self.lengths) * stride + self.values
        return np.concatenate([np.sort(keys), [-1]]), stride
