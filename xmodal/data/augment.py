"""The random part of the training augmentation: window, mirroring and colour shift of a picture.

As the released training code of the CxC dual encoder draws them (lingvo's `milan` task), which
takes the window from TensorFlow's `sample_distorted_bounding_box`: the same distribution here, at
a tenth of the cost, but other numbers.
"""

import math
from typing import NamedTuple

import numpy as np

from xmodal.data.config import AugmentConfig

_ATTEMPTS = 100
# What the released code asks of a window besides the ranges: a share of the whole picture.
_LEAST_AREA = 0.1
# Rows R, G, B; columns of the blue and red chroma shifts (ITU-R BT.601, as in JPEG).
_CHROMA_TO_RGB = np.array(((0.0, 1.402), (-0.344136, -0.714136), (1.772, 0.0)), np.float32)
_LUMA, _CHROMA = 32.0, 25.5


class Augmentation(NamedTuple):
    """What is done to a picture.

    Attributes:
      window: top, left, height and width of the part that is kept.
      mirrored: whether left and right change places.
      shift: float32 [3], of 255, added to red, green and blue.
    """

    window: tuple[int, int, int, int]
    mirrored: bool
    shift: np.ndarray


def draw(seed: np.ndarray, height: int, width: int, config: AugmentConfig) -> Augmentation:
    """Draws an augmentation; the same seed gives the same for pictures of one size.

    Args:
      seed: int64 [2].
      height: of the picture, in pixels.
      width: of the picture, in pixels.
      config: ranges and switches.
    """
    rng = np.random.Generator(np.random.Philox(key=seed.astype(np.uint64)))
    flip, luma, *chroma = rng.random(4, np.float32)
    shift = np.zeros(3, np.float32)
    if config.colour:
        shift += _LUMA * (2 * luma - 1)
        shift += _CHROMA_TO_RGB @ (_CHROMA * (2 * np.array(chroma) - 1))
    window = _draw_window(rng, height, width, config)
    return Augmentation(window, bool(config.flip and flip < 0.5), shift)


def _draw_window(
    rng: np.random.Generator, height: int, width: int, config: AugmentConfig
) -> tuple[int, int, int, int]:
    """The first window that fits, or the whole picture if none of many does."""
    least, most = (share * height * width for share in config.area)
    least = max(least, _LEAST_AREA * height * width)
    for _ in range(_ATTEMPTS):
        aspect = rng.uniform(*config.aspect)
        rows = _draw_rows(rng, height, width, aspect, least, most)
        columns = round(rows * aspect)
        if not (least <= rows * columns <= most and 0 < rows <= height and 0 < columns <= width):
            continue
        top = int(rng.integers(height - rows)) if rows < height else 0
        left = int(rng.integers(width - columns)) if columns < width else 0
        return top, left, rows, columns
    return 0, 0, height, width


def _draw_rows(
    rng: np.random.Generator, height: int, width: int, aspect: float, least: float, most: float
) -> int:
    """Height of a window: uniform between those of the least and the largest area that fits."""
    highest = round(math.sqrt(most / aspect))
    if round(highest * aspect) > width:
        highest = int((width + 0.5) / aspect)
        highest -= round(highest * aspect) > width
    highest = min(highest, height)
    lowest = min(round(math.sqrt(least / aspect)), highest)
    rows = int(rng.integers(lowest, highest, endpoint=True))
    # Rounded sides may miss the range by a row.
    rows += rows * round(rows * aspect) < least
    rows -= rows * round(rows * aspect) > most
    return rows
