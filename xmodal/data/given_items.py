"""Texts and pictures in memory or in files, as the items of a split without labels."""

import concurrent.futures
import functools
import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import PIL.Image

from xmodal.core.errors import UserError
from xmodal.core.untrusted.picture_formats import to_rgb
from xmodal.data.pixels.images import (
    ImageConfig,
    decode_image,
    decode_upright,
    evaluation_view,
    stand_upright,
)
from xmodal.data.pixels.regions import pad_rows
from xmodal.data.read_ahead import read_ahead
from xmodal.data.text.tokenizers import Tokenizer

Picture = str | os.PathLike | bytes | PIL.Image.Image | np.ndarray
"""A file, its content, a PIL image, uint8 pixels [H, W, 3] or [H, W], or stored features."""

_WORKERS = concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1, "images to embed")


class GivenItems:
    """Items of one modality, see `evals.scores.embed.Items`; their ids are their positions."""

    name = title = "given"
    split = "items"

    def __init__(
        self,
        *,
        texts: Sequence[str] = (),
        images: Sequence[Picture] = (),
        tokenizer: Tokenizer | None = None,
        config: ImageConfig | None = None,
        upright: bool = True,
        first: int = 0,
        unreadable: dict[int, str] | None = None,
        lengths: Sequence[int] = (),
    ) -> None:
        """Takes texts with their tokenizer, or images with their preprocessing.

        Args:
          texts: M strings.
          images: N pictures, or features.
          tokenizer: tokenizer of the texts.
          config: config of the images.
          upright: see `prepare_image`.
          first: position of the first image among all that are embedded.
          unreadable: see `Model.embed_images`.
          lengths: the only padded lengths of the texts; by default, multiples of 4.
        """
        self._images, self._upright = images, upright
        self._config: Any = config
        self._first, self._unreadable = first, unreadable
        self.modalities = ("text",) * bool(texts) + ("image",) * bool(images)
        self.image_ids = np.arange(len(images))
        self.caption_texts, self.caption_ids = texts, np.arange(len(texts))
        self.caption_image_ids = self.caption_ids
        if texts and tokenizer is not None:
            self._ids, self._mask = tokenizer.encode(texts)
            longest = self._mask.shape[1]
            # Few lengths, because each is compiled.
            self._lengths = np.array(lengths or [*range(4, longest, 4), longest], np.int32)

    @functools.cached_property
    def caption_lengths(self) -> np.ndarray:
        """The first length T that holds all tokens of a text, int32 [M]."""
        return self._lengths[np.searchsorted(self._lengths, self._mask.sum(axis=1))]

    def captions(
        self, batch_size: int, rows: np.ndarray, length: int
    ) -> Iterator[dict[str, np.ndarray]]:
        """Yields `text_ids` and `text_mask` int32 [b, length], and `caption_id` [b]."""
        for at in np.split(rows, range(batch_size, len(rows), batch_size)):
            ids, mask = self._ids[at, :length], self._mask[at, :length]
            yield {"text_ids": ids, "text_mask": mask, "caption_id": self.caption_ids[at]}

    def images(self, batch_size: int, rows: np.ndarray) -> Iterator[dict[str, np.ndarray]]:
        """Yields columns of the encoder and `image_id` [b], one batch ahead.

        They are `image` [b, ...], and `image_mask` [b, R] if the number of regions varies.
        """

        def make_batch(start: int) -> dict[str, np.ndarray]:
            at = rows[start : start + batch_size]
            read = list(_WORKERS.map(self._read, at))
            if not self._config.max_regions:
                return {"image": np.stack(read), "image_id": at}
            image, mask = pad_rows(read, self._config.max_regions)
            return {"image": image, "image_mask": mask, "image_id": at}

        return read_ahead(make_batch, range(0, len(rows), batch_size), 1)

    def _read(self, place: int) -> np.ndarray:
        given, number = self._images[place], self._first + int(place)
        try:
            return prepare_image(given, self._config, upright=self._upright)
        except (OSError, ValueError, TypeError, RuntimeError) as error:
            # The last two are PyTorch's, for tensors that NumPy cannot read.
            if self._unreadable is not None and self._config.size:
                self._unreadable[number] = str(error)
                return np.zeros(self._config.shape, np.uint8)
            name = f" ({os.fspath(given)})" if isinstance(given, str | os.PathLike) else ""
            raise UserError(f"Image {number}{name} cannot be embedded: {error}.") from error


def prepare_image(given: Picture, config: ImageConfig, *, upright: bool = True) -> np.ndarray:
    """Returns the encoder's input for an image, with the evaluation crop of its training.

    Args:
      given: see `Picture`.
      config: config of the model's images; `size` 0 for stored features, returned unchanged. If
        their number of regions varies, `GivenItems` pads or cuts them to `max_regions`.
      upright: whether a picture is rotated according to its EXIF orientation.

    Raises:
      ValueError: it is not an image, or has the wrong shape or type.
      OSError: its file cannot be read.
    """
    if config.size:
        return evaluation_view(_pixels(given, upright), config)
    features, several = np.asarray(given), 2 if config.max_regions else 1
    fits = features.dtype.kind == "f" and features.size and several <= features.ndim <= 2
    # Not for NaN, either.
    if not (fits and np.abs(features).max() <= np.finfo(np.float32).max):
        wanted = "[R, F]" if config.max_regions else "[F] or [R, F]"
        raise ValueError(
            f"this model takes stored features, finite float {wanted}, not "
            f"{features.dtype} {list(features.shape)}"
        )
    return features


def _pixels(given: Any, upright: bool) -> np.ndarray:
    """Returns uint8 [H, W, 3], with at least one pixel."""
    if isinstance(given, str | os.PathLike):
        given = pathlib.Path(given).read_bytes()
    if isinstance(given, bytes):
        return decode_upright(given) if upright else decode_image(given)
    if isinstance(given, PIL.Image.Image):
        return np.asarray(to_rgb(stand_upright(given) if upright else given))
    pixels = np.asarray(given)
    if pixels.dtype != np.uint8 or pixels.ndim < 2 or not pixels.size:
        raise ValueError(
            "a picture is a path, bytes, a PIL image or an array uint8 [H, W, 3] with pixels, not "
            f"{type(given).__name__}, {pixels.dtype} {list(pixels.shape)}"
        )
    return np.asarray(to_rgb(PIL.Image.fromarray(pixels)))
