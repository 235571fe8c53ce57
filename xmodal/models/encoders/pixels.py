"""The pixel values that published networks were trained with, by name."""

from collections.abc import Callable, Mapping
from functools import partial

import jax
import jax.numpy as jnp

# ImageNet statistics of RGB pixels in [0, 1].
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
# Statistics of CLIP's training pictures, RGB in [0, 1].
CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)
# ImageNet mean of BGR pixels in [0, 255], from the first Caffe models; VGG's is of RGB.
CAFFE_MEAN = (103.939, 116.779, 123.68)
# Mean of BGR pixels in Faster R-CNN and bottom-up attention.
DETECTOR_MEAN = (102.9801, 115.9465, 122.7717)


def _standardize(mean: tuple[float, ...], std: tuple[float, ...], images: jax.Array) -> jax.Array:
    return (images / 255.0 - jnp.asarray(mean)) / jnp.asarray(std)


NORMALIZATIONS: Mapping[str, Callable[[jax.Array], jax.Array]] = {
    "caffe": lambda images: images[..., ::-1] - jnp.asarray(CAFFE_MEAN),
    "clip": partial(_standardize, CLIP_MEAN, CLIP_STD),
    "detector": lambda images: images[..., ::-1] - jnp.asarray(DETECTOR_MEAN),
    "efficientnet_lite": lambda images: (images - 127.0) / 128.0,
    "imagenet": partial(_standardize, MEAN, STD),
    "inception": lambda images: images / 127.5 - 1.0,
    "torch": partial(_standardize, MEAN, STD),
    "unit": lambda images: images / 255.0,
    "vgg": lambda images: images - jnp.asarray(CAFFE_MEAN[::-1]),
}


def normalize(images: jax.Array, name: str) -> jax.Array:
    """Returns pixel values in the range that a family of networks was trained with.

    Args:
      images: uint8 [B, H, W, 3], RGB.
      name: "imagenet" or its alias "torch" (minus the mean and divided by the standard deviation of
        ImageNet), "clip" (the same with CLIP's statistics), "inception" ([-1, 1], also SigLIP's),
        "efficientnet_lite" (minus 127, divided by 128), "caffe" (BGR minus the mean), "detector"
        (BGR minus that of Faster R-CNN), "vgg" (RGB minus the mean), "unit" ([0, 1]).

    Returns:
      float32 [B, H, W, 3].
    """
    return NORMALIZATIONS[name](images)
