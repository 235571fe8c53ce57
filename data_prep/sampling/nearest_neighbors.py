"""The nearest neighbors of every item, by cosine."""

import numpy as np

NEIGHBORS = 5  # per item and encoder
_ROWS = 1024  # of the similarity matrix at a time


def nearest(
    vectors: np.ndarray, number: int = NEIGHBORS, decimals: int | None = None
) -> np.ndarray:
    """The most similar other items of every item, the most similar first.

    Among equally similar items, earlier ones count as nearer.

    Args:
      vectors: floats [N, D], none of them zero, N > 1. Cosines are computed in their type.
      number: number K of neighbors; if there are fewer, all of them.
      decimals: number of digits to round cosines to before comparing them, so that items with
        equal vectors tie on every machine; None for no rounding.

    Returns:
      int64 [N, min(K, N - 1)].
    """
    number = min(number, len(vectors) - 1)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    found = []
    for start in range(0, len(unit), _ROWS):
        similarity = unit[start : start + _ROWS] @ unit.T
        if decimals is not None:
            similarity = np.round(similarity, decimals)
        own = np.arange(len(similarity))
        similarity[own, start + own] = -np.inf
        found.append(_largest(similarity, number))
    return np.concatenate(found)


def _largest(values: np.ndarray, number: int) -> np.ndarray:
    """Columns of the largest values of every row, in the order of a stable sort of the row."""
    least = np.partition(values, -number, axis=1)[:, -number]
    # More than `number` in a row if several tie for the smallest.
    row, column = np.nonzero(values >= least[:, None])
    order = np.lexsort((column, -values[row, column], row))
    place = np.arange(len(row)) - np.searchsorted(row, row)  # in its row; `row` is sorted
    return column[order][place < number].reshape(-1, number)
