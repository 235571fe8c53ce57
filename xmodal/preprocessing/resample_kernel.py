"""The kernel of `resample`, which Numba compiles on first use and caches beside this file."""

import numba
import numpy as np

from xmodal.preprocessing.resample import MIN_TAPS

Taps = tuple[np.ndarray, np.ndarray]
"""See `resample.triangle_taps`."""

# Without the interpreter's lock, threads run in parallel. Fused and reordered sums change a value
# by less than 1e-4, which matters only if it is that close to one half.
_compiled = numba.njit(nogil=True, cache=True, fastmath=True)
# Numba lets signed indices count from the end, which costs half the speed.
_natural = np.uint64


@_compiled
def fill(
    rows: np.ndarray,
    top: int,
    left: int,
    height: int,
    width: int,
    row_taps: Taps,
    column_taps: Taps,
    places: np.ndarray,
    shifts: np.ndarray,
    result: np.ndarray,
) -> None:
    """Fills uint8 [size, 3 * size] from uint8 [H, 3 * W]; output column x goes to `places[x]`."""
    rows = rows[top : top + height, 3 * left : 3 * (left + width)]
    size = places.size
    first_row, row_weights = row_taps
    first_column, column_weights = column_taps
    # Zeros past the end, which the last columns read with weight 0.
    row = np.zeros(3 * (width + column_weights.shape[0]), np.float32)
    line = np.empty(3 * size, np.float32)
    for y in range(size):
        _blend_rows(rows, first_row[y], row_weights[:, y], row)
        _blend_columns(row, first_column, column_weights, places, line)
        out = result[y]
        for k in range(_natural(line.size)):
            value = np.rint(line[k] + shifts[k])
            out[k] = np.uint8(np.int32(min(max(value, np.float32(0)), np.float32(255))))


@_compiled
def _blend_rows(rows: np.ndarray, first: int, weights: np.ndarray, row: np.ndarray) -> None:
    """Sums neighboring rows, uint8 [h, n], into the first n values of float32 `row`."""
    last, length = _natural(rows.shape[0] - 1), _natural(rows.shape[1])
    one, two = rows[first], rows[min(first + _natural(1), last)]
    three = rows[min(first + _natural(2), last)]
    a, b, c = weights[0], weights[1], weights[2]
    for k in range(length):
        row[k] = a * one[k] + b * two[k] + c * three[k]
    for tap in range(MIN_TAPS, weights.size):
        more, weight = rows[min(first + _natural(tap), last)], weights[tap]
        for k in range(length):
            row[k] += weight * more[k]


@_compiled
def _blend_columns(
    row: np.ndarray, first: np.ndarray, weights: np.ndarray, places: np.ndarray, line: np.ndarray
) -> None:
    """Sums neighboring pixels of float32 `row` into those of `line`."""
    one, two, three = weights[0], weights[1], weights[2]
    for x in range(_natural(first.size)):
        p, q = _natural(3) * first[x], places[x]
        a, b, c = one[x], two[x], three[x]
        for k in range(_natural(3)):
            line[q + k] = (
                a * row[p + k] + b * row[p + k + _natural(3)] + c * row[p + k + _natural(6)]
            )
    for tap in range(MIN_TAPS, weights.shape[0]):
        more = weights[tap]
        for x in range(_natural(first.size)):
            p, q = _natural(3) * (first[x] + _natural(tap)), places[x]
            for k in range(_natural(3)):
                line[q + k] += more[x] * row[p + k]
