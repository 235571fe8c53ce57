"""Decoded images to model inputs: the training augmentation and the evaluation crops.

The augmentation and the first crop follow the released training code of the CxC dual encoder
(lingvo's `milan` task). Pixels leave this file as uint8, because they travel to the device that
way; normalisation is the tower's.
"""

from collections.abc import Callable, Mapping

import tensorflow as tf

from xmodal.data.config import AugmentConfig, ImageConfig
from xmodal.options import UserError

_PARALLEL_IMAGES = 32
# Rows R, G, B; columns of the blue and red chroma shifts (ITU-R BT.601, as in JPEG).
_CHROMA_TO_RGB = ((0.0, 1.402), (-0.344136, -0.714136), (1.772, 0.0))


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

    def prepare(item: tuple[tf.Tensor, ...]) -> tf.Tensor:
        picture = tf.io.decode_image(item[0], channels=3, expand_animations=False)
        picture = tf.ensure_shape(picture, [None, None, 3])
        if len(item) == 1:
            return EVALUATION_CROPS[config.eval_recipe](picture, config.size, config.eval_crop)
        return augment(picture, item[1], config.size, config.augment)

    random = seeds is not None and config.augment is not None
    return tf.map_fn(
        prepare,
        (images, seeds) if random else (images,),
        parallel_iterations=_PARALLEL_IMAGES,
        fn_output_signature=tf.TensorSpec([config.size, config.size, 3], tf.uint8),
    )


def augment(image: tf.Tensor, seed: tf.Tensor, size: int, config: AugmentConfig) -> tf.Tensor:
    """Random crop, resize, mirror and colour shift.

    Args:
      image: uint8 [H, W, 3].
      seed: int64 [2]; the same seed gives the same picture.
      size: side of the result.
      config: ranges and switches.

    Returns:
      uint8 [size, size, 3].
    """
    # Two seeds, because one would give both operations the same random bits.
    crop_seed = seed * tf.constant([1, 2], tf.int64)
    begin, extent, _ = tf.image.stateless_sample_distorted_bounding_box(
        tf.shape(image),
        tf.zeros([1, 0, 4]),
        seed=crop_seed,
        min_object_covered=0.1,
        aspect_ratio_range=config.aspect,
        area_range=config.area,
        max_attempts=100,
        use_image_if_no_bounding_boxes=True,
    )
    image = tf.slice(image, begin, extent)
    uniform = tf.random.stateless_uniform([4], crop_seed + [0, 1], alg="philox")
    if config.flip:
        image = tf.where(uniform[0] < 0.5, tf.reverse(image, [1]), image)
    image = _resize(image, size)
    if config.colour:
        image += _colour_shift(uniform[1], uniform[2:])
    return _to_uint8(image)


def evaluation_crop(image: tf.Tensor, size: int, fraction: float) -> tf.Tensor:
    """Keeps the central `fraction` of each side of uint8 [H, W, 3]; uint8 [size, size, 3].

    The fraction is of the sides and not of the area, although the parameter of the released code is
    named as an area: what counts is what its TF op did.
    """
    return _to_uint8(_resize(tf.image.central_crop(image, fraction), size))


def simclr_crop(image: tf.Tensor, size: int, fraction: float) -> tf.Tensor:
    """A central square of uint8 [H, W, 3], `fraction` of its shorter side; uint8 [size, size, 3].

    As data_util.py of google-research/simclr evaluates, whose released weights were trained with
    TensorFlow 1: its bicubic kernel (a = -0.75) starts from the corner of a pixel and not from its
    centre, and is no wider where the picture shrinks.
    """
    extent = tf.shape(image)[:2]
    shorter = tf.cast(tf.reduce_min(extent), tf.float32)
    side = tf.cast(tf.round(fraction * shorter), tf.int32)
    top, left = tf.unstack((extent - side + 1) // 2)
    square = image[top : top + side, left : left + side]
    resized = tf.compat.v1.image.resize_bicubic(square[None], [size, size])
    return _to_uint8(tf.ensure_shape(resized[0], [size, size, 3]))


EVALUATION_CROPS: Mapping[str, Callable[[tf.Tensor, int, float], tf.Tensor]] = {
    "cxc": evaluation_crop,
    "simclr": simclr_crop,
}
"""By `config.data.image.eval_recipe`."""


def _resize(image: tf.Tensor, size: int) -> tf.Tensor:
    """Antialiased bilinear, aspect ratio not kept; float32 in [0, 255]."""
    return tf.image.resize(image, [size, size], "bilinear", antialias=True)


def _colour_shift(brightness: tf.Tensor, chroma: tf.Tensor) -> tf.Tensor:
    """RGB offset [3] in [0, 255] units from uniform [0, 1) draws: brightness [], chroma [2]."""
    brightness = 32.0 * (2.0 * brightness - 1.0)
    chroma = 255.0 * 0.1 * (2.0 * chroma - 1.0)
    return brightness + tf.linalg.matvec(tf.constant(_CHROMA_TO_RGB), chroma)


def _to_uint8(image: tf.Tensor) -> tf.Tensor:
    return tf.saturate_cast(tf.round(image), tf.uint8)
