"""Arranges single pairs in small products, of a few queries with many of their partners."""

from typing import NamedTuple

import numpy as np


class PairLayout(NamedTuple):
    """Products of P pairs; an item of a product may repeat or have no pair.

    Attributes:
      left: int [blocks, height], queries of every product.
      right: int [blocks, width], its items.
      row: int32 [blocks, width], which of the queries each of these items is paired with.
      block: int [P], product of every pair.
      column: int [P], its column in this product.
    """

    left: np.ndarray
    right: np.ndarray
    row: np.ndarray
    block: np.ndarray
    column: np.ndarray


def lay_out(rows: np.ndarray, columns: np.ndarray, height: int, width: int) -> PairLayout:
    """Arranges pairs of queries and items in products [height, width].

    Args:
      rows: int [P], positions of queries, ascending; P is at least 1.
      columns: int [P], positions of items.
      height: most queries in a product.
      width: most pairs in a product.
    """
    queries, which = np.unique(rows, return_inverse=True)
    starts = [0]
    while (start := starts[-1]) < len(rows):
        starts.append(min(start + width, int(np.searchsorted(which, which[start] + height))))
    first = np.array(starts[:-1])
    number = np.arange(len(rows))
    block = np.searchsorted(first, number, side="right") - 1
    column = number - first[block]
    right = np.zeros((len(first), width), np.int64)
    row = np.zeros(right.shape, np.int32)
    right[block, column], row[block, column] = columns, which - which[first][block]
    of_block = which[first][:, None] + np.arange(height)
    return PairLayout(queries[np.minimum(of_block, len(queries) - 1)], right, row, block, column)
