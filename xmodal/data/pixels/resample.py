"""Resizes pictures like TensorFlow, TensorFlow 1 and Pillow, each with its own filter and rounding.

Pillow's rounds after each axis, the others compute in float32 and round once. The crops of
evaluation are here as well: this file is copied into ONNX exports, and imports no xmodal.
"""

import functools
from collections.abc import Callable, Mapping

import numpy as np
import PIL.Image

BILINEAR, BICUBIC = PIL.Image.Resampling.BILINEAR, PIL.Image.Resampling.BICUBIC
_Crop = Callable[[np.ndarray, int, float], np.ndarray]
_MOST_PIXELS = 2**22  # Larger pictures are resized only where a part of them is needed.


def resize_antialiased(picture: np.ndarray, size: int) -> np.ndarray:
    """Resizes a picture like `tf.image.resize`, bilinearly with antialiasing, then rounds.

    Args:
      picture: uint8 [H, W, 3].
      size: side of the result.

    Returns:
      uint8 [size, size, 3].
    """
    channels = [PIL.Image.fromarray(picture[..., k].astype(np.float32)) for k in range(3)]
    resized = [np.asarray(channel.resize((size, size), BILINEAR)) for channel in channels]
    return np.rint(np.stack(resized, -1)).astype(np.uint8)


def resize_window(
    picture: np.ndarray,
    resized: tuple[int, int],
    corner: tuple[int, int],
    size: int,
    kernel: PIL.Image.Resampling,
) -> np.ndarray:
    """Returns a square of a picture that Pillow resizes, uint8 [size, size, 3].

    If the resized picture would be large, as for a picture of 60,000 x 1, Pillow computes only the
    square; its values then differ by rounding.

    Args:
      picture: uint8 [H, W, 3].
      resized: height and width of the resized picture.
      corner: top and left of the square in it.
      size: side of the square.
      kernel: `BILINEAR` or `BICUBIC`.
    """
    (height, width), (top, left) = resized, corner
    image = PIL.Image.fromarray(picture)
    if height * width <= _MOST_PIXELS:
        whole = np.asarray(image.resize((width, height), kernel))
        return whole[top : top + size, left : left + size]
    down, along = picture.shape[0] / height, picture.shape[1] / width
    right, bottom = min((left + size) * along, image.width), min((top + size) * down, image.height)
    box = (left * along, top * down, right, bottom)
    return np.asarray(image.resize((size, size), kernel, box))


def _keys(distance: np.ndarray, a: float) -> np.ndarray:
    """Returns Keys' cubic kernel at distances of at least 0."""
    x = distance
    inner = ((a + 2) * x - (a + 3)) * x * x + 1
    outer = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, inner, np.where(x < 2, outer, 0.0))


def resize_bilinear(picture: np.ndarray, size: int) -> np.ndarray:
    """Resizes a picture like `tf.image.resize` without antialiasing, then rounds down.

    Args:
      picture: uint8 [H, W, 3].
      size: side of the result.

    Returns:
      uint8 [size, size, 3].
    """
    (top, bottom, down), (left, right, along) = (_linear_taps(n, size) for n in picture.shape[:2])
    lines = []
    for rows in (top, bottom):
        start, end = (picture[np.ix_(rows, c)].astype(np.float32) for c in (left, right))
        lines.append(start + (end - start) * along)
    upper, lower = lines
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
    x = np.arange(1025) / 1024
    return _keys(x, -0.75).astype(np.float32), _keys(1 + x, -0.75).astype(np.float32)


def _of_center(resize: Callable[[np.ndarray, int], np.ndarray]) -> _Crop:
    """Returns the crop that resizes the central `fraction` of each side to a square."""

    def crop(picture: np.ndarray, size: int, fraction: float) -> np.ndarray:
        height, width = picture.shape[:2]
        top, left = (int((side - side * fraction) / 2) for side in (height, width))
        return resize(picture[top : height - top, left : width - left], size)

    return crop


def _squash(kernel: PIL.Image.Resampling) -> _Crop:
    return _of_center(
        lambda picture, size: np.asarray(PIL.Image.fromarray(picture).resize((size, size), kernel))
    )


def simclr_crop(picture: np.ndarray, size: int, fraction: float) -> np.ndarray:
    """Returns the central square, `fraction` of the shorter side, as uint8 [size, size, 3].

    Follows the evaluation in data_util.py of google-research/simclr, whose released weights were
    trained with TensorFlow 1 and its bicubic kernel.
    """
    height, width = picture.shape[:2]
    side = max(1, int(np.rint(np.float32(fraction) * np.float32(min(height, width)))))
    top, left = ((extent - side + 1) // 2 for extent in (height, width))
    return resize_bicubic(picture[top : top + side, left : left + side], size)


def resize_and_crop(
    picture: np.ndarray, size: int, fraction: float, kernel: PIL.Image.Resampling
) -> np.ndarray:
    """Returns the central square of a resized picture, uint8 [size, size, 3].

    Equals `Resize(size / fraction)` and `CenterCrop(size)` of torchvision on PIL images; with a
    fraction of 1 and a bicubic kernel, the transform of openai/CLIP and "shortest" of open_clip.
    """
    sides = picture.shape[:2]
    height, width = (round(size / fraction) * side // min(sides) for side in sides)
    top, left = (round((side - size) / 2) for side in (height, width))
    return resize_window(picture, (height, width), (top, left), size, kernel)


EVALUATION_CROPS: Mapping[str, _Crop] = {
    # With a fraction of 1, `resize(size)` of google-research/big_vision.
    "big_vision": _of_center(resize_bilinear),
    "clip": functools.partial(resize_and_crop, kernel=BICUBIC),
    # The released code of the CxC dual encoder calls its parameter an area, but its TF op keeps
    # that fraction of each side.
    "cxc": _of_center(resize_antialiased),
    "simclr": simclr_crop,
    # With a fraction of 1, the "squash" of open_clip and the SigLIP of transformers.
    "squash": _squash(BICUBIC),
    "squash_bilinear": _squash(BILINEAR),
    "torchvision": functools.partial(resize_and_crop, kernel=BILINEAR),
}
"""By `config.data.image.eval_transform`: picture, size and fraction -> uint8 [size, size, 3]."""
