"""Positives given by groups of items, for labels with too many pairs to list."""

import dataclasses
import functools

import numpy as np


@dataclasses.dataclass(frozen=True)
class Relation:
    """Item n is a positive of query q if their groups are related.

    Plausible matches relate 11.8 million image-caption pairs, but only through the category
    vectors of the images, of which there are about two thousand.

    Attributes:
      query_group: int32 [Q].
      gallery_group: int32 [N].
      related: bool [G, H], by group of the query and group of the gallery item.
    """

    query_group: np.ndarray
    gallery_group: np.ndarray
    related: np.ndarray

    @functools.cached_property
    def lengths(self) -> np.ndarray:
        """int64 [Q], number of positives of every query."""
        sizes = np.bincount(self.gallery_group, minlength=self.related.shape[1])
        # float32 counts exactly up to 2 ** 24 items, and its product is a fast one.
        counts = self.related.astype(np.float32) @ sizes.astype(np.float32)
        return counts.astype(np.int64)[self.query_group]

    def contains(self, rows: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Whether every item is a positive of its query.

        Args:
          rows: integers in 0..Q-1.
          items: integers in 0..N-1, or negative for no item; of a shape that broadcasts with
            `rows`.

        Returns:
          bool, of the broadcast shape.
        """
        items = np.asarray(items)
        groups = self.query_group[rows], self.gallery_group[items]
        return self.related[groups] & (items >= 0)
