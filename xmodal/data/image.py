"""Encoded images to model inputs: the training augmentation and the evaluation crops.

The augmentation and the first crop follow the released training code of the CxC dual encoder
(lingvo's `milan` task). Pixels leave this file as uint8, because they travel to the device that
way; normalisation is the tower's.
"""

import concurrent.futures
import os
from collections.abc import Callable, Mapping

import numpy as np
import simplejpeg
import tensorflow as tf

from xmodal.data.config import AugmentConfig, ImageConfig
from xmodal.data.resample import resample
from xmodal.options import UserError

_PARALLEL_IMAGES = 32
# Rows R, G, B; columns of the blue and red chroma shifts (ITU-R BT.601, as in JPEG).
_CHROMA_TO_RGB = ((0.0, 1.402), (-0.344136, -0.714136), (1.772, 0.0))
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

    # Only what takes one seed at a time; each operation here costs some 10 microseconds a picture.
    def draw(item: tuple[tf.Tensor, ...]) -> tuple[tf.Tensor, ...]:
        extent, crop_seed, other_seed = item
        begin, extent, _ = tf.image.stateless_sample_distorted_bounding_box(
            extent,
            no_boxes,
            seed=crop_seed,
            min_object_covered=0.1,
            aspect_ratio_range=config.aspect,
            area_range=config.area,
            max_attempts=100,
            use_image_if_no_bounding_boxes=True,
        )
        return begin, extent, tf.random.stateless_uniform([4], other_seed, alg="philox")

    no_boxes = tf.zeros([1, 0, 4])
    extents = tf.numpy_function(_extents, [images], tf.int64)
    # Two seeds, because one would give both operations the same random bits.
    crop_seeds = seeds * tf.constant([1, 2], tf.int64)
    begins, extents, uniform = tf.map_fn(
        draw,
        (tf.ensure_shape(extents, [None, 3]), crop_seeds, crop_seeds + [0, 1]),
        parallel_iterations=_PARALLEL_IMAGES,
        fn_output_signature=(
            tf.TensorSpec([3], tf.int64),
            tf.TensorSpec([3], tf.int64),
            tf.TensorSpec([4], tf.float32),
        ),
    )
    windows = tf.concat([begins[:, :2], extents[:, :2]], axis=1)
    mirrored = tf.logical_and(config.flip, uniform[:, 0] < 0.5)
    shifts = _colour_shift(uniform[:, 1], uniform[:, 2:]) * float(config.colour)
    return _resampled(images, windows, mirrored, shifts, size)


def evaluation_crops(images: tf.Tensor, size: int, fraction: float) -> tf.Tensor:
    """Keeps the central `fraction` of each side; strings [N] to uint8 [N, size, size, 3].

    The fraction is of the sides and not of the area, although the parameter of the released code is
    named as an area: what counts is what its TF op did.
    """

    def centre(images: np.ndarray) -> np.ndarray:
        extents = _extents(images)[:, :2]
        begin = ((extents - extents * fraction) / 2).astype(np.int64)
        return np.concatenate([begin, extents - 2 * begin], axis=1)

    windows = tf.numpy_function(centre, [images], tf.int64)
    plain = tf.zeros([tf.shape(images)[0], 3])
    return _resampled(images, windows, tf.zeros_like(images, tf.bool), plain, size)


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


def _extents(images: np.ndarray) -> np.ndarray:
    """Heights, widths and channels, int64 [N, 3], of encoded pictures; of JPEGs by the header."""
    extents = np.full([len(images), 3], 3, np.int64)
    for row, encoded in enumerate(images):
        try:
            extents[row, :2] = simplejpeg.decode_jpeg_header(encoded)[:2]
        except ValueError:
            extents[row] = decode(encoded).shape
    return extents


def _resampled(
    images: tf.Tensor, windows: tf.Tensor, mirrored: tf.Tensor, shifts: tf.Tensor, size: int
) -> tf.Tensor:
    """Windows of encoded pictures, uint8 [N, size, size, 3]; see `resample`."""

    def run(*columns: np.ndarray) -> np.ndarray:
        results = np.empty([len(columns[0]), size, size, 3], np.uint8)

        def fill(encoded: bytes, *rest: np.ndarray) -> None:
            resample(decode(encoded), *rest)

        for _ in _WORKERS.map(fill, *columns, results):
            pass  # and raise what a worker raised
        return results

    pixels = tf.numpy_function(run, [images, windows, mirrored, shifts], tf.uint8)
    return tf.ensure_shape(pixels, [*images.shape, size, size, 3])


def _colour_shift(brightness: tf.Tensor, chroma: tf.Tensor) -> tf.Tensor:
    """RGB offsets [N, 3], of 255, from uniform [0, 1) draws: brightness [N], chroma [N, 2]."""
    brightness = 32.0 * (2.0 * brightness - 1.0)
    chroma = 255.0 * 0.1 * (2.0 * chroma - 1.0)
    return brightness[:, None] + tf.linalg.matvec(tf.constant(_CHROMA_TO_RGB), chroma)
