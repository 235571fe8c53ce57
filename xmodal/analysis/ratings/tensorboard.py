"""Figures as TensorBoard images."""

import io
import os
from collections.abc import Mapping

import numpy as np
from PIL import Image


def write_images(folder: str | os.PathLike, images: Mapping[str, bytes]) -> None:
    """Writes pictures into a new TensorBoard file.

    Args:
      folder: of the file.
      images: tag -> bytes of a PNG.
    """
    import tensorflow as tf
    from clu import metric_writers

    tf.config.set_visible_devices([], "GPU")  # it would take all of its memory to write a file

    pixels = {
        tag: np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))[None]
        for tag, png in images.items()
    }
    writer = metric_writers.SummaryWriter(os.fspath(folder))
    writer.write_images(0, pixels)
    writer.flush()
    writer.close()
