"""Figures as TensorBoard images."""

import contextlib
import io
import os
from collections.abc import Mapping

import numpy as np
from PIL import Image

from xmodal.tensorboard.writer import make_writer


def write_images(folder: str | os.PathLike, images: Mapping[str, bytes]) -> None:
    """Writes pictures into a new TensorBoard file.

    Args:
      folder: folder of the file.
      images: tag -> bytes of a PNG.
    """
    pixels = {
        tag: np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))[None]
        for tag, png in images.items()
    }
    with contextlib.closing(make_writer(os.fspath(folder))) as writer:
        writer.write_images(0, pixels)
