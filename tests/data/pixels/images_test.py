"""Evaluation crops and decoding beside their publishers', and augmentation."""

import io

import numpy as np
import PIL.Image
import pytest
import tensorflow as tf

from xmodal.data.pixels import resample
from xmodal.data.pixels.augment import AugmentConfig, draw
from xmodal.data.pixels.images import (
    ImageConfig,
    decode_image,
    prepare_images,
)
from xmodal.data.pixels.resample import BICUBIC, BILINEAR, EVALUATION_CROPS

SHAPES = [(51, 90), (41, 28), (20, 25)]


def _png(picture):
    file = io.BytesIO()
    PIL.Image.fromarray(picture).save(file, "PNG")
    return file.getvalue()


def _crop(picture, recipe, size=28, fraction=1.0):
    config = ImageConfig(size=size, eval_crop=fraction, eval_transform=recipe)
    return prepare_images([_png(picture)], config)[0]


def _center(picture, fraction):
    top, left = (int((side - side * fraction) / 2) for side in picture.shape[:2])
    return picture[top : len(picture) - top, left : picture.shape[1] - left]


@pytest.mark.parametrize(("height", "width"), SHAPES)
@pytest.mark.parametrize("fraction", [0.875, 1.0])
def test_evaluation_crops_equal_their_publishers(height, width, fraction):
    """TensorFlow's, TensorFlow 1's and Pillow's resizing, as their authors call it."""
    rng = np.random.default_rng(height)
    picture = rng.choice([0, 3, 128, 255], (height, width, 3)).astype(np.uint8)
    center, exact = _center(picture, fraction), np.testing.assert_array_equal
    expected = tf.image.resize(center, [28, 28], "bilinear", antialias=True).numpy()
    assert np.abs(_crop(picture, "cxc", 28, fraction) - expected).max() < 0.5 + 1e-3
    expected = tf.cast(tf.image.resize(center, [28, 28], "bilinear", antialias=False), tf.uint8)
    exact(_crop(picture, "big_vision", 28, fraction), expected)
    for recipe, kernel in (("squash", BICUBIC), ("squash_bilinear", BILINEAR)):
        resized = PIL.Image.fromarray(center).resize((28, 28), kernel)
        exact(_crop(picture, recipe, 28, fraction), resized)
    shorter = round(28 / fraction)
    sides = [shorter * side // min(height, width) for side in (height, width)]
    top, left = (round((side - 28) / 2) for side in sides)
    for recipe, kernel in (("clip", BICUBIC), ("torchvision", BILINEAR)):
        resized = np.asarray(PIL.Image.fromarray(picture).resize(sides[::-1], kernel))
        exact(_crop(picture, recipe, 28, fraction), resized[top : top + 28, left : left + 28])
    side = round(fraction * min(height, width))
    top, left = (height - side + 1) // 2, (width - side + 1) // 2
    square = picture[None, top : top + side, left : left + side]
    resized = tf.compat.v1.image.resize_bicubic(square, [28, 28])[0]
    exact(_crop(picture, "simclr", 28, fraction), tf.saturate_cast(tf.round(resized), tf.uint8))


@pytest.mark.parametrize("shape", [(1, 5000), (60, 1501)])
@pytest.mark.parametrize("recipe", ["torchvision", "clip"])
def test_a_window_alone_has_the_values_of_the_resized_picture(shape, recipe, monkeypatch):
    picture = np.random.default_rng(0).choice([0, 3, 90, 128, 255], (*shape, 3)).astype(np.uint8)
    whole = EVALUATION_CROPS[recipe](picture, 128, 0.875)
    monkeypatch.setattr(resample, "_MOST_PIXELS", 0)
    found = EVALUATION_CROPS[recipe](picture, 128, 0.875)
    assert np.abs(found.astype(int) - whole).max() <= 1


@pytest.mark.parametrize(
    ("height", "width", "size"),
    [(60, 80, 64), (200, 150, 41), (5, 2, 9)],
)
def test_an_augmented_picture_is_that_of_tensorflow_to_a_level(height, width, size):
    picture = np.random.default_rng(size).integers(0, 256, (height, width, 3), np.uint8)
    seeds = np.array([[5, number] for number in range(6)])
    config = ImageConfig(size=size, augment=AugmentConfig())
    results = prepare_images([_png(picture)] * 6, config, seeds)
    for seed, result in zip(seeds, results, strict=True):
        (top, left, rows, columns), mirrored, shift = draw(seed, height, width, AugmentConfig())
        crop = picture[top : top + rows, left : left + columns]
        crop = crop[:, ::-1] if mirrored else crop
        expected = tf.image.resize(crop, [size, size], "bilinear", antialias=True) + shift
        difference = np.abs(result - np.clip(expected, 0, 255))
        # Pillow rounds after each axis, and the shift is rounded, too.
        assert difference.max() <= 1.5 + 1e-3


def test_jpegs_are_decoded_as_tensorflow_does():
    y, x = np.mgrid[:37, :51]
    picture = np.stack([5 * x, 6 * y, 2 * (x + y)], -1) + np.random.default_rng(0).integers(0, 9)
    picture = PIL.Image.fromarray(picture.astype(np.uint8))
    kinds = [
        {},
        {"subsampling": "4:4:4", "quality": 95},
        {"subsampling": "4:2:2"},
        {"progressive": True},
        {"keep_rgb": True},
        {"mode": "L"},
        {"mode": "CMYK"},
    ]
    for kind in kinds:
        file = io.BytesIO()
        picture.convert(kind.pop("mode", "RGB")).save(file, "JPEG", **kind)
        expected = tf.io.decode_image(file.getvalue(), channels=3).numpy()
        np.testing.assert_array_equal(decode_image(file.getvalue()), expected)
    np.testing.assert_array_equal(decode_image(file.getvalue() + b"more"), expected)


@pytest.mark.parametrize(
    ("kind", "mode"),
    [("PNG", mode) for mode in ("RGB", "L", "RGBA", "LA", "P", "1")]
    + [("GIF", "RGB"), ("BMP", "RGB"), ("WEBP", "RGB")],
)
def test_other_formats_are_decoded_as_tensorflow_does(kind, mode):
    pixels = np.random.default_rng(0).integers(0, 256, (13, 17, 4), np.uint8)
    file = io.BytesIO()
    transparency = {"transparency": 3} if mode == "P" else {}
    PIL.Image.fromarray(pixels).convert(mode).save(file, kind, **transparency)
    expected = tf.io.decode_image(file.getvalue(), channels=3, expand_animations=False)
    np.testing.assert_array_equal(decode_image(file.getvalue()), expected)
