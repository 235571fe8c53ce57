"""Resizes pictures like TensorFlow, TensorFlow 1 and PIL, each with its own filter and rounding.

TensorFlow's antialiased bilinear kernel takes five times as long as decoding the picture, that of
`resample` half as long. Numba compiles it on first use and caches the result beside this file. All
but PIL's compute in float32 and round once.
"""

import functools
import math

import numba
import numpy as np
import PIL.Image

_MIN_TAPS = 3

# Without the interpreter's lock, threads run in parallel. Fused and reordered sums change a value
# by less than 1e-4, which matters only if it is that close to one half.
_compiled = numba.njit(nogil=True, cache=True, fastmath=True)
# Numba lets signed indices count from the end, which costs half the speed.
_natural = np.uint64


def resample(
    picture: np.ndarray,
    window: tuple[int, int, int, int],
    mirrored: bool,
    shift: np.ndarray,
    result: np.ndarray,
) -> None:
    """Resizes a window of a picture, mirrors it and shifts its color.

    Args:
      picture: uint8 [H, W, 3].
      window: top, left, height and width; inside of the picture.
      mirrored: whether left and right change places.
      shift: float32 [3], added to each pixel before it is rounded and clipped.
      result: uint8 [size, size, 3], contiguous; it is filled.
    """
    rows, size = picture.reshape(picture.shape[0], -1), result.shape[0]
    order = np.arange(size)[::-1] if mirrored else np.arange(size)
    places = (3 * order).astype(_natural)
    _fill(rows, *window, places, np.tile(shift, size), result.reshape(size, -1))


def resample_bicubic(
    picture: np.ndarray,
    window: tuple[int, int, int, int],
    mirrored: bool,
    shift: np.ndarray,
    result: np.ndarray,
) -> None:
    """Does the same with PIL's antialiased bicubic filter, which rounds after each axis."""
    top, left, height, width = window
    cut = PIL.Image.fromarray(picture[top : top + height, left : left + width])
    resized = np.asarray(cut.resize(result.shape[:2], PIL.Image.Resampling.BICUBIC))
    resized = resized[:, ::-1] if mirrored else resized
    result[:] = np.rint(resized + shift).clip(0, 255) if shift.any() else resized


def resize_bilinear(picture: np.ndarray, size: int) -> np.ndarray:
    """Resizes a picture like `tf.image.resize` without antialiasing, then rounds down.

    Args:
      picture: uint8 [H, W, 3].
      size: side of the result.

    Returns:
      uint8 [size, size, 3].
    """
    (top, bottom, down), (left, right, along) = (_linear_taps(n, size) for n in picture.shape[:2])
    rows = [picture[places].astype(np.float32) for places in (top, bottom)]
    upper, lower = (row[:, left] + (row[:, right] - row[:, left]) * along for row in rows)
    return (upper + (lower - upper) * down[:, None]).astype(np.uint8)


def _linear_taps(length: int, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns both inputs int64 [size] of each output, and the weight float32 [size, 1] of one."""
    scale = np.float32(length / size)
    place = (np.arange(size, dtype=np.float32) + np.float32(0.5)) * scale - np.float32(0.5)
    first = np.floor(place)
    low, high = np.maximum(first, 0), np.minimum(np.ceil(place), length - 1)
    return low.astype(np.int64), high.astype(np.int64), (place - first)[:, None]


def resize_bicubic(picture: np.ndarray, size: int) -> np.ndarray:
    """Resizes a picture like `tf.compat.v1.image.resize_bicubic`, then rounds and clips.

    The kernel (a = -0.75, tabulated at 1,024 positions between two pixels) starts from the corner
    of a pixel, not its center, and does not get wider when the picture shrinks.

    Args:
      picture: uint8 [H, W, 3].
      size: side of the result.

    Returns:
      uint8 [size, size, 3].
    """
    places, weights = _cubic_taps(picture.shape[0], size)
    lines = sum(w[:, None, None] * picture[p] for p, w in zip(places, weights, strict=True))
    places, weights = _cubic_taps(picture.shape[1], size)
    resized = sum(w[:, None] * lines[:, p] for p, w in zip(places, weights, strict=True))
    return np.rint(resized).clip(0, 255).astype(np.uint8)


def _cubic_taps(length: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the inputs int64 [4, size] of each output and their weights float32 [4, size]."""
    place = np.arange(size, dtype=np.float32) * np.float32(length / size)
    first = place.astype(np.int64)
    step = np.rint((place - first) * 1024).astype(np.int64)
    inner, outer = _cubic_table()
    weights = np.stack([outer[step], inner[step], inner[1024 - step], outer[1024 - step]])
    return np.clip(first + np.arange(-1, 3)[:, None], 0, length - 1), weights


@functools.cache
def _cubic_table() -> tuple[np.ndarray, np.ndarray]:
    """Returns Keys' kernel at the distances k / 1024 and 1 + k / 1024, float32 [1025] each."""
    a, x = -0.75, np.arange(1025) / 1024
    inner = ((a + 2) * x - (a + 3)) * x * x + 1
    x = x + 1
    outer = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return inner.astype(np.float32), outer.astype(np.float32)


@_compiled
def _taps(length: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the first of `length` inputs that each output reads, and weights [taps, size].

    The weights form a triangle as wide as the output spacing, or the input spacing if larger.
    """
    scale = length / size
    support = max(scale, 1.0)
    first = np.empty(size, _natural)
    weights = np.zeros((max(math.ceil(2 * support), _MIN_TAPS), size), np.float32)
    for out in range(size):
        center = (out + 0.5) * scale
        start = max(math.ceil(center - support - 0.5), 0)
        total = 0.0
        for k in range(min(weights.shape[0], length - start)):
            weight = max(0.0, 1.0 - abs(start + k + 0.5 - center) / support)
            weights[k, out] = weight
            total += weight
        weights[:, out] /= total
        first[out] = start
    return first, weights


@_compiled
def _fill(
    rows: np.ndarray,
    top: int,
    left: int,
    height: int,
    width: int,
    places: np.ndarray,
    shifts: np.ndarray,
    result: np.ndarray,
) -> None:
    """Fills uint8 [size, 3 * size] from uint8 [H, 3 * W]; output column x goes to `places[x]`."""
    rows = rows[top : top + height, 3 * left : 3 * (left + width)]
    size = places.size
    first_row, row_weights = _taps(height, size)
    first_column, column_weights = _taps(width, size)
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
    for tap in range(_MIN_TAPS, weights.size):
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
    for tap in range(_MIN_TAPS, weights.shape[0]):
        more = weights[tap]
        for x in range(_natural(first.size)):
            p, q = _natural(3) * (first[x] + _natural(tap)), places[x]
            for k in range(_natural(3)):
                line[q + k] += more[x] * row[p + k]
