"""Encoded images to model inputs: the training augmentation and the evaluation crops.

The first crop follows the released training code of the CxC dual encoder (lingvo's `milan` task),
as the augmentation does. Pixels leave this file as uint8, because they travel to the device that
way; normalisation is the tower's.
"""

import concurrent.futures
import os
from collections.abc import Callable, Mapping

import numpy as np
import simplejpeg
import tensorflow as tf

from xmodal.config import UserError
from xmodal.data.augment import draw
from xmodal.data.config import AugmentConfig, ImageConfig
from xmodal.data.resample import resample

# One is read and tokenised while the pictures of the other are decoded on all cores; more would
# only take memory.
PARALLEL_BATCHES = 2
_PARALLEL_IMAGES = 32
# As many pictures are in memory at a time, apart from the results.
_WORKERS = concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1, "pictures")


def model_images(
    images: tf.Tensor, config: ImageConfig, seeds: tf.Tensor | None = None
) -> tf.Tensor:
    """Model inputs of a batch.

    Args:
      images: encoded pictures (PNG or JPEG), strings [N], or precomputed features [N, ...], which
        pass through.
      config: size, augmentation and evaluation crop.
      seeds: int64 [N, 2] for training; None gives the evaluation crop.

    Returns:
      uint8 [N, size, size, 3], or the features.

    Raises:
      UserError: the configured size and the kind of images do not fit.
    """
    is_encoded = images.dtype == tf.string
    if is_encoded != (config.size > 0):
        raise UserError(
            f"config.data.image.size={config.size}, but the images of this dataset are "
            + ("pictures: set the side of the model's input" if is_encoded else "features: set 0")
        )
    if not is_encoded:
        return images
    if seeds is None or config.augment is None:
        return EVALUATION_CROPS[config.eval_recipe](images, config.size, config.eval_crop)
    return augmented(images, seeds, config.size, config.augment)


def augmented(images: tf.Tensor, seeds: tf.Tensor, size: int, config: AugmentConfig) -> tf.Tensor:
    """Random crops of encoded pictures, resized, mirrored and shifted in colour.

    Args:
      images: encoded pictures, strings [N].
      seeds: int64 [N, 2]; the same seed gives the same picture.
      size: side of the result.
      config: ranges and switches.

    Returns:
      uint8 [N, size, size, 3].
    """

    def fill(result: np.ndarray, encoded: bytes, seed: np.ndarray) -> None:
        picture = decode(encoded)
        resample(picture, *draw(seed, *picture.shape[:2], config), result)

    return _each(fill, size, images, seeds)


def evaluation_crops(images: tf.Tensor, size: int, fraction: float) -> tf.Tensor:
    """Keeps the central `fraction` of each side; strings [N] to uint8 [N, size, size, 3].

    The fraction is of the sides and not of the area, although the parameter of the released code is
    named as an area: what counts is what its TF op did.
    """

    def fill(result: np.ndarray, encoded: bytes) -> None:
        picture = decode(encoded)
        height, width = picture.shape[:2]
        top, left = (int((side - side * fraction) / 2) for side in (height, width))
        window = (top, left, height - 2 * top, width - 2 * left)
        resample(picture, window, False, np.zeros(3, np.float32), result)

    return _each(fill, size, images)


def simclr_crops(images: tf.Tensor, size: int, fraction: float) -> tf.Tensor:
    """Central squares, `fraction` of the shorter side; strings [N] to uint8 [N, size, size, 3].

    As data_util.py of google-research/simclr evaluates, whose released weights were trained with
    TensorFlow 1: its bicubic kernel (a = -0.75) starts from the corner of a pixel and not from its
    centre, and is no wider where the picture shrinks.
    """

    def crop(encoded: tf.Tensor) -> tf.Tensor:
        image = tf.io.decode_image(encoded, channels=3, expand_animations=False)
        extent = tf.shape(image)[:2]
        shorter = tf.cast(tf.reduce_min(extent), tf.float32)
        side = tf.cast(tf.round(fraction * shorter), tf.int32)
        top, left = tf.unstack((extent - side + 1) // 2)
        square = image[top : top + side, left : left + side]
        resized = tf.compat.v1.image.resize_bicubic(square[None], [size, size])[0]
        return tf.saturate_cast(tf.round(resized), tf.uint8)

    return tf.map_fn(
        crop,
        images,
        parallel_iterations=_PARALLEL_IMAGES,
        fn_output_signature=tf.TensorSpec([size, size, 3], tf.uint8),
    )


EVALUATION_CROPS: Mapping[str, Callable[[tf.Tensor, int, float], tf.Tensor]] = {
    "cxc": evaluation_crops,
    "simclr": simclr_crops,
}
"""By `config.data.image.eval_recipe`."""


def decode(encoded: bytes) -> np.ndarray:
    """Pixels uint8 [H, W, 3] of an encoded picture, those of `tf.io.decode_image`.

    Raises:
      tf.errors.InvalidArgumentError: this is no picture, or only a part of one.
    """
    try:
        if simplejpeg.decode_jpeg_header(encoded)[2] in ("YCbCr", "Gray"):
            # TensorFlow's default DCT; with the other one pixels are off by 1 on average.
            return simplejpeg.decode_jpeg(encoded, fastdct=True)
    except ValueError:  # another format, or a JPEG with a slip
        pass
    return tf.io.decode_image(encoded, channels=3, expand_animations=False).numpy()


def _each(
    fill: Callable[..., None], size: int, images: tf.Tensor, *columns: tf.Tensor
) -> tf.Tensor:
    """Pictures uint8 [N, size, size, 3] that `fill` makes, in threads.

    Args:
      fill: function of the picture to fill, an encoded picture and a row of every column.
      size: side of the result.
      images: encoded pictures, strings [N].
      *columns: tensors [N, ...].
    """

    def run(*columns: np.ndarray) -> np.ndarray:
        results = np.empty([len(columns[0]), size, size, 3], np.uint8)
        for _ in _WORKERS.map(fill, results, *columns):
            pass  # and raise what a worker raised
        return results

    pixels = tf.numpy_function(run, [images, *columns], tf.uint8)
    return tf.ensure_shape(pixels, [*images.shape, size, size, 3])
