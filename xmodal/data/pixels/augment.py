"""The random part of image augmentation: crop window, mirroring and color shift.

The draws follow the released training code of the CxC dual encoder (lingvo's `milan` task), which
takes the window from TensorFlow's `sample_distorted_bounding_box`: here, the distribution is the
same at a tenth of the cost, but the numbers differ. Windows may also be distributed like those of
torchvision's `RandomResizedCrop`.
"""

import dataclasses
import math

import numpy as np

from xmodal.core.config import setting
from xmodal.core.errors import UserError

_ATTEMPTS, _TORCHVISION_ATTEMPTS = 100, 10
# Rows R, G, B; columns of the blue and red chroma shifts (ITU-R BT.601, as in JPEG).
_CHROMA_TO_RGB = np.array(((0.0, 1.402), (-0.344136, -0.714136), (1.772, 0.0)), np.float32)
_LUMA, _CHROMA = 32.0, 25.5

_MEAN_COLOR = np.rint(255 * np.array([0.485, 0.456, 0.406])).astype(np.uint8)
_ERASE_AREA, _ERASE_ASPECT, _ERASE_ATTEMPTS = (0.02, 1 / 3), 0.3, 10
_ERASE_STREAM = 0x9E3779B97F4A7C15


@dataclasses.dataclass(frozen=True)
class AugmentConfig:
    """Augmentation of training images; the defaults are the released recipe of the CxC model.

    Attributes:
      area: range of the area of the random crop, as a fraction of the image.
      aspect: range of the aspect ratio (width over height) of the crop.
      crop: distribution of the crops by area and aspect: "cxc" draws aspect and height uniformly;
        "torchvision" draws the area and the logarithm of the aspect ratio uniformly, as its
        `RandomResizedCrop` does, so that small crops are rarer.
      sides: range of a share u; the crop is u x height by u x width, regardless of `area` and
        `aspect` (VSE-infinity). None for crops by area and aspect.
      square: the crop is the largest square, anywhere in the image, regardless of the ranges (CMCM:
        torchvision's `Resize` and `RandomCrop` to one size).
      filter: interpolation of the crop, with antialiasing: "bilinear" like `tf.image.resize`, or
        "bicubic" like PIL. open_clip trains CLIP with `crop="torchvision"`, `area=(0.9, 1.0)`,
        `aspect=(3 / 4, 4 / 3)`, `filter="bicubic"`, `flip=False` and `color=False`.
      flip: mirror half of the images.
      color: shift luma and chroma at random.
      min_area: smallest share of the image in a crop, regardless of `area`; the released code of
        CxC requires it as well.
      erase: probability that a random rectangle of the crop becomes the mean color of ImageNet
        (Zhong et al., "Random Erasing", as PCME uses it: 2 % to a third of the area, aspect ratio
        0.3 to 3.3).
    """

    area: tuple[float, float] = setting((0.67, 1.0), above=0, at_most=1)
    aspect: tuple[float, float] = setting((0.75, 1.33), above=0)
    crop: str = setting("cxc", one_of=("cxc", "torchvision"))
    sides: tuple[float, float] | None = setting(None, above=0, at_most=1)
    square: bool = False
    filter: str = setting("bilinear", one_of=("bilinear", "bicubic"))
    flip: bool = True
    color: bool = True
    min_area: float = setting(0.1, at_least=0, at_most=1)
    erase: float = setting(0.0, at_least=0, at_most=1)

    def __post_init__(self) -> None:
        for name in ("area", "aspect", "sides"):
            low, high = getattr(self, name) or (1, 1)
            if low > high:
                raise UserError(
                    f"config.data.image.augment.{name} starts with its upper end {low}."
                )


def draw(
    seed: np.ndarray, height: int, width: int, config: AugmentConfig
) -> tuple[tuple[int, int, int, int], bool, np.ndarray]:
    """Draws the augmentation of a picture of a given size.

    Args:
      seed: int64 [2].
      height: height of the picture in pixels.
      width: width of the picture in pixels.
      config: ranges and switches.

    Returns:
      The window: top, left, height and width of the crop, in pixels; whether left and right are
      swapped; and the shift float32 [3], on a scale of 255, added to red, green and blue.
    """
    rng = np.random.Generator(np.random.Philox(key=seed.astype(np.uint64)))
    flip, luma, *chroma = rng.random(4, np.float32)
    shift = np.zeros(3, np.float32)
    if config.color:
        shift += _LUMA * (2 * luma - 1)
        shift += _CHROMA_TO_RGB @ (_CHROMA * (2 * np.array(chroma) - 1))
    window = _draw_window(rng, height, width, config)
    return window, bool(config.flip and flip < 0.5), shift


def erase(pixels: np.ndarray, seed: np.ndarray, probability: float) -> None:
    """With some probability, fills a random rectangle of a square picture with ImageNet's mean.

    An encoder that normalizes by this mean sees about zero there, up to half a level of 255.

    Args:
      pixels: uint8 [size, size, 3], changed in place.
      seed: int64 [2]; the same seed gives the same rectangle.
      probability: probability of erasing.
    """
    # A separate stream, so that crops do not depend on whether anything is erased.
    key = seed.astype(np.uint64) ^ np.uint64(_ERASE_STREAM)
    rng = np.random.Generator(np.random.Philox(key=key))
    size = len(pixels)
    if rng.random() >= probability:
        return
    for _ in range(_ERASE_ATTEMPTS):
        area = rng.uniform(*_ERASE_AREA) * size * size
        aspect = math.exp(rng.uniform(math.log(_ERASE_ASPECT), -math.log(_ERASE_ASPECT)))
        rows, columns = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if rows < size and columns < size:
            top, left = _draw_corner(rng, size - rows, size - columns)
            pixels[top : top + rows, left : left + columns] = _MEAN_COLOR
            return


def _draw_window(
    rng: np.random.Generator, height: int, width: int, config: AugmentConfig
) -> tuple[int, int, int, int]:
    """Returns the first window that fits, or the whole picture if none of many fits."""
    if config.square or config.sides is not None:
        share = rng.uniform(*(config.sides or (1, 1)))
        rows, columns = (max(1, int(share * side)) for side in (height, width))
        if config.square:
            rows = columns = min(height, width)
        return *_draw_corner(rng, height - rows, width - columns), rows, columns
    if config.crop == "torchvision":
        return _draw_as_torchvision(rng, height, width, config)
    low, high = (share * height * width for share in config.area)
    low = max(low, config.min_area * height * width)
    for _ in range(_ATTEMPTS):
        aspect = rng.uniform(*config.aspect)
        rows = _draw_rows(rng, height, width, aspect, low, high)
        columns = round(rows * aspect)
        if not (low <= rows * columns <= high and 0 < rows <= height and 0 < columns <= width):
            continue
        top = int(rng.integers(height - rows)) if rows < height else 0
        left = int(rng.integers(width - columns)) if columns < width else 0
        return top, left, rows, columns
    return 0, 0, height, width


def _draw_as_torchvision(
    rng: np.random.Generator, height: int, width: int, config: AugmentConfig
) -> tuple[int, int, int, int]:
    """Returns the first window that fits, or the central one if none of ten fits."""
    least, most = max(config.area[0], config.min_area), config.area[1]
    narrowest, widest = config.aspect
    for _ in range(_TORCHVISION_ATTEMPTS):
        area = rng.uniform(least, most) * height * width
        aspect = math.exp(rng.uniform(math.log(narrowest), math.log(widest)))
        rows, columns = round(math.sqrt(area / aspect)), round(math.sqrt(area * aspect))
        if 0 < rows <= height and 0 < columns <= width:
            return *_draw_corner(rng, height - rows, width - columns), rows, columns
    rows = min(height, max(1, round(width / narrowest)))
    columns = min(width, max(1, round(height * widest)))
    return (height - rows) // 2, (width - columns) // 2, rows, columns


def _draw_corner(rng: np.random.Generator, lowest: int, rightmost: int) -> tuple[int, int]:
    """Returns top and left of a window, uniform over all places in the picture."""
    return int(rng.integers(lowest, endpoint=True)), int(rng.integers(rightmost, endpoint=True))


def _draw_rows(
    rng: np.random.Generator,
    height: int,
    width: int,
    aspect: float,
    low: float,
    high: float,
) -> int:
    """Returns a height, uniform between those of the smallest and largest areas that fit."""
    highest = round(math.sqrt(high / aspect))
    if round(highest * aspect) > width:
        highest = int((width + 0.5) / aspect)
        highest -= round(highest * aspect) > width
    highest = min(highest, height)
    lowest = min(round(math.sqrt(low / aspect)), highest)
    rows = int(rng.integers(lowest, highest, endpoint=True))
    # Rounded sides may miss the range by a row.
    rows += rows * round(rows * aspect) < low
    rows -= rows * round(rows * aspect) > high
    return rows
