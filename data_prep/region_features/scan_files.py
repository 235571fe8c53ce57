"""SCAN's layout of precomputed features: `train_ims.npy`, `train_caps.txt`, `train_ids.txt`."""

import dataclasses
import math
import pathlib

import numpy as np

from data_prep.reading.text_lines import TextLines
from xmodal.core.errors import UnexpectedFilesError
from xmodal.core.untrusted.saved_arrays import DAMAGE, load_arrays

CAPTIONS_PER_IMAGE = 5
# The largest number of float16; region features stay below 100.
_LARGEST = float(np.finfo(np.float16).max)


@dataclasses.dataclass(frozen=True)
class FeatureFiles:
    """One split.

    Attributes:
      features: [N, ...] or, if every image is repeated for each caption, [5N, ...]; mapped, not
        read.
      captions: 5N lines.
      image_ids: int64 [N], from the published list, or None.
      caption_ids: int64 [5N], from the published list, or None.
    """

    features: np.ndarray
    captions: TextLines
    image_ids: np.ndarray | None
    caption_ids: np.ndarray | None

    @property
    def num_images(self) -> int:
        """Number N of images."""
        return len(self.captions) // CAPTIONS_PER_IMAGE

    def image(self, number: int, shape: tuple[int, ...]) -> np.ndarray:
        """Features of an image as float16 [*shape].

        Args:
          number: from 0 to N - 1.
          shape: rows and channels. A channels-first map, as in PyTorch, is transposed.

        Raises:
          ValueError: they are rejected.
        """
        copies = len(self.features) // self.num_images
        first = np.asarray(self.features[number * copies])
        if copies > 1 and not np.array_equal(first, self.features[(number + 1) * copies - 1]):
            raise ValueError(f"row {number * copies} and the next four are not the same image")
        if first.ndim == 3 and first.shape[-1] != shape[-1]:
            first = np.moveaxis(first, 0, -1)
        return to_float16(first.reshape(shape))


def open_split(folder: pathlib.Path, split: str, shape: tuple[int, ...]) -> FeatureFiles:
    """Opens one split and checks that its files belong together.

    Args:
      folder: contains `{split}_ims.npy` and `{split}_caps.txt`, and optionally `{split}_ids.txt`
        (one image id per image or per caption) and `{split}_capids.txt`.
      split: SCAN's name: train, dev, test or testall.
      shape: rows and channels of an image.

    Raises:
      FileNotFoundError: a file is missing.
      UnexpectedFilesError: a file is truncated, or lengths or shapes do not fit.
    """
    path = folder / f"{split}_ims.npy"
    try:
        features = load_arrays(path, mmap_mode="r")
    except FileNotFoundError:
        raise
    except DAMAGE as error:
        raise UnexpectedFilesError(f"{path} is truncated or not an array: {error}") from error
    if features.dtype.kind != "f" or not _fits(features.shape[1:], shape):
        raise UnexpectedFilesError(
            f"{path} contains {features.dtype} {list(features.shape)}; this config needs floating "
            f"point numbers [N, {', '.join(map(str, shape))}]; use another config"
        )
    captions = TextLines(folder / f"{split}_caps.txt")
    images, rest = divmod(len(captions), CAPTIONS_PER_IMAGE)
    if rest or not images or len(features) not in (images, len(captions)):
        raise UnexpectedFilesError(
            f"{path} has {len(features):,} rows and {captions.path.name} {len(captions):,} lines; "
            "there must be five lines per image, and one row per image or per line"
        )
    image_ids = _read_ids(folder / f"{split}_ids.txt", (images, len(captions)))
    if image_ids is not None and len(image_ids) != images:
        image_ids = image_ids[::CAPTIONS_PER_IMAGE]
    caption_ids = _read_ids(folder / f"{split}_capids.txt", (len(captions),))
    return FeatureFiles(features, captions, image_ids, caption_ids)


def to_float16(features: np.ndarray) -> np.ndarray:
    """Features as stored.

    Raises:
      ValueError: they are rejected.
    """
    if not np.isfinite(features).all() or np.abs(features).max() > _LARGEST:
        raise ValueError(f"not finite, or beyond {_LARGEST:,.0f}, the largest float16")
    return features.astype(np.float16)


def _fits(found: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether an image has these rows and channels, or is a map [H, W, C] or [C, H, W] of them."""
    is_map = len(found) == 3 and math.prod(found) == math.prod(shape)
    return found == shape or (is_map and shape[-1] in (found[0], found[-1]))


def _read_ids(path: pathlib.Path, lengths: tuple[int, ...]) -> np.ndarray | None:
    if not path.exists():
        return None
    lines = TextLines(path)
    if len(lines) not in lengths:
        expected = " or ".join(f"{length:,}" for length in lengths)
        raise UnexpectedFilesError(f"{path} has {len(lines):,} lines instead of {expected}")
    try:
        return np.array([int(line) for line in lines], np.int64)
    except (ValueError, OverflowError) as error:
        raise UnexpectedFilesError(f"{path}: {error}") from error
