"""SCAN's layout of precomputed features: `train_ims.npy`, `train_caps.txt`, `train_ids.txt`."""

import math
import pathlib
from collections.abc import Iterator

import numpy as np

from data_prep import schema
from data_prep.building.record_counts import LeftOut, Record
from data_prep.reading.text_lines import TextLines, read_caption
from xmodal.core.errors import UnexpectedFilesError
from xmodal.core.untrusted.saved_arrays import DAMAGE, load_arrays

CAPTIONS_PER_IMAGE = 5
# The largest number of float16; region features stay below 100.
_LARGEST = float(np.finfo(np.float16).max)


def open_split(
    folder: pathlib.Path, split: str, shape: tuple[int, ...], first_id: int
) -> tuple[int, Iterator[Record | LeftOut]]:
    """Opens one split and checks that its files belong together.

    Args:
      folder: contains `{split}_ims.npy` and `{split}_caps.txt`, and optionally `{split}_ids.txt`
        (one image id per image or per caption) and `{split}_capids.txt`.
      split: SCAN's name: train, dev, test or testall.
      shape: rows and channels of an image. A channels-first map, as in PyTorch, is transposed.
      first_id: first id of images and of captions if the files give none.

    Returns:
      The number of images, and the examples with `image` float16 [*shape].

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
    image_ids = _read_ids(folder / f"{split}_ids.txt", (images, len(captions)), first_id)
    image_ids = image_ids[:: len(image_ids) // images]
    caption_ids = _read_ids(folder / f"{split}_capids.txt", (len(captions),), first_id)
    # If every image is repeated for each caption, [N, 5, ...].
    repeated = features.reshape(images, -1, *features.shape[1:])
    return images, _examples(split, repeated, captions, image_ids, caption_ids, shape)


def _examples(
    split: str,
    features: np.ndarray,
    captions: TextLines,
    image_ids: np.ndarray,
    caption_ids: np.ndarray,
    shape: tuple[int, ...],
) -> Iterator[Record | LeftOut]:
    for number, image_id in enumerate(image_ids.tolist()):
        lines = range(number * CAPTIONS_PER_IMAGE, (number + 1) * CAPTIONS_PER_IMAGE)
        texts = [
            read_caption(captions[line], f"{split}_caps.txt line {line + 1}") for line in lines
        ]
        fault = next((text for text in texts if isinstance(text, LeftOut)), None)
        good = [text for text in texts if isinstance(text, str)]
        said = list(zip(caption_ids[lines].tolist(), good, strict=False))
        try:
            first = np.asarray(features[number, 0])
            if first.ndim == 3 and first.shape[-1] != shape[-1]:
                first = np.moveaxis(first, 0, -1)
            image = to_float16(first.reshape(shape))
        except ValueError as error:
            fault = LeftOut(f"{split}_ims.npy image {number}", "bad features", str(error))
        yield fault or (image_id, schema.captioned_example(image_id, said, image=image))


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


def _read_ids(path: pathlib.Path, lengths: tuple[int, ...], first_id: int) -> np.ndarray:
    if not path.exists():
        return first_id + np.arange(lengths[0])
    lines = TextLines(path)
    if len(lines) not in lengths:
        expected = " or ".join(f"{length:,}" for length in lengths)
        raise UnexpectedFilesError(f"{path} has {len(lines):,} lines instead of {expected}")
    try:
        return np.array([int(line) for line in lines], np.int64)
    except (ValueError, OverflowError) as error:
        raise UnexpectedFilesError(f"{path}: {error}") from error
