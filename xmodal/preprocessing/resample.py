"""Resizes pictures like TensorFlow, TensorFlow 1 and PIL, each with its own filter and rounding.

TensorFlow's antialiased bilinear kernel takes five times as long as decoding the picture, that of
`resample` half as long. All but PIL's compute in float32 and round once.
"""

import functools
import math

import numpy as np
import PIL.Image

MIN_TAPS = 3
"""The fewest inputs that `triangle_taps` gives a weight, which may be 0."""


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
    from xmodal.preprocessing.resample_kernel import fill  # Numba is slow to import.

    rows, size = picture.reshape(picture.shape[0], -1), result.shape[0]
    down, along = (triangle_taps(length, size) for length in window[2:])
    order = np.arange(size)[::-1] if mirrored else np.arange(size)
    places = (3 * order).astype(np.uint64)
    fill(rows, *window, down, along, places, np.tile(shift, size), result.reshape(size, -1))


@functools.lru_cache(maxsize=1024)
def triangle_taps(length: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the first of `length` inputs that each output reads, uint64 [size], and weights.

    The weights, float32 [taps, size], form a triangle as wide as the output spacing, or the input
    spacing if that is larger. Numba would take three seconds to compile this function.
    """
    scale = length / size
    support = max(scale, 1.0)
    center = (np.arange(size) + 0.5) * scale
    first = np.maximum(np.ceil(center - support - 0.5), 0)
    places = first + np.arange(max(math.ceil(2 * support), MIN_TAPS))[:, None]
    weights = np.maximum(1 - np.abs(places + 0.5 - center) * (1 / support), 0)
    weights[places >= length] = 0
    normalized = weights.astype(np.float32) * (1 / weights.sum(axis=0))
    return first.astype(np.uint64), normalized.astype(np.float32)


def resample_bicubic(
    picture: np.ndarray,
    window: tuple[int, int, int, int],
    mirrored: bool,
    shift: np.ndarray,
    result: np.ndarray,
) -> None:
    """Does what `resample` does with PIL's bicubic filter, which rounds after each axis."""
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
