"""Pictures: the evaluation crop against plain loops, and augmentation statistics."""

import dataclasses
import io
import subprocess
import sys
import zlib

import numpy as np
import PIL.Image
import pytest
import tensorflow as tf

from xmodal.data.pixels import resample
from xmodal.data.pixels.augment import AugmentConfig, draw
from xmodal.data.pixels.images import (
    EVALUATION_CROPS,
    ImageConfig,
    check_size,
    decode_image,
    prepare_images,
)
from xmodal.data.pixels.resample import resize_bicubic

SHAPES = [(64, 64), (51, 90), (41, 28), (37, 300), (20, 25)]


def _png(picture):
    file = io.BytesIO()
    PIL.Image.fromarray(picture).save(file, "PNG")
    return file.getvalue()


def _resize_axis(image, size):
    """Antialiased linear interpolation along the first axis, one output row at a time."""
    scale = image.shape[0] / size
    support = max(scale, 1.0)
    rows = []
    for out in range(size):
        center = (out + 0.5) * scale
        weights = [max(0.0, 1 - abs(i + 0.5 - center) / support) for i in range(image.shape[0])]
        total = sum(weights)
        rows.append(sum(w / total * row for w, row in zip(weights, image, strict=True)))
    return np.stack(rows)


def _evaluation_crop(picture, size, fraction):
    height, width = picture.shape[:2]
    top, left = int((height - height * fraction) / 2), int((width - width * fraction) / 2)
    crop = picture[top : height - top, left : width - left].astype(np.float64)
    return _resize_axis(_resize_axis(crop, size).swapaxes(0, 1), size).swapaxes(0, 1)


@pytest.mark.parametrize(
    ("height", "width", "size", "fraction"),
    [(64, 64, 64, 0.875), (51, 70, 17, 0.875), (33, 41, 40, 0.875), (29, 23, 12, 1.0)],
)
def test_evaluation_crop_equals_plain_loops(height, width, size, fraction):
    picture = np.random.default_rng(size).integers(0, 256, (height, width, 3), dtype=np.uint8)
    config = ImageConfig(size=size, augment=AugmentConfig(), eval_crop=fraction)
    result = prepare_images([_png(picture)], config)[0]
    expected = _evaluation_crop(picture, size, fraction)
    assert result.dtype == np.uint8
    # Exact except where float32 and float64 fall on different sides of one half.
    assert np.abs(result - expected).max() < 0.5 + 1e-4


def _cubic(distance, a=-0.75):
    """Keys' kernel with a = -0.75, which TensorFlow 1 uses; PIL has -0.5."""
    x = abs(distance)
    if x <= 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * (x**3 - 5 * x**2 + 8 * x - 4) if x < 2 else 0.0


def _cubic_axis(image, size):
    """Output row i is interpolated at i * scale; the last row is repeated beyond the border."""
    length, rows = image.shape[0], []
    for out in range(size):
        place = out * length / size
        # The kernel is tabulated at 1024 positions between two pixels.
        offset = round((place - int(place)) * 1024) / 1024
        taps = [(int(place) + k, _cubic(k - offset)) for k in (-1, 0, 1, 2)]
        rows.append(sum(w * image[min(max(i, 0), length - 1)] for i, w in taps))
    return np.stack(rows)


def _simclr_crop(picture, size, fraction):
    height, width = picture.shape[:2]
    side = round(fraction * min(height, width))
    top, left = (height - side + 1) // 2, (width - side + 1) // 2
    square = picture[top : top + side, left : left + side].astype(np.float64)
    return _cubic_axis(_cubic_axis(square, size).swapaxes(0, 1), size).swapaxes(0, 1)


@pytest.mark.parametrize(
    ("height", "width", "size", "fraction"),
    [(64, 64, 64, 0.875), (51, 70, 17, 0.875), (33, 28, 40, 0.875), (29, 25, 12, 1.0)],
)
def test_simclr_crop_equals_plain_loops(height, width, size, fraction):
    rng = np.random.default_rng(size)
    # Values near both limits, so that the kernel overshoots them.
    picture = rng.choice([0, 3, 128, 255], (height, width, 3)).astype(np.uint8)
    config = ImageConfig(size=size, eval_crop=fraction, eval_transform="simclr")
    result = prepare_images([_png(picture)], config)[0]
    expected = _simclr_crop(picture, size, fraction)
    assert result.dtype == np.uint8
    assert expected.min() < 0
    assert expected.max() > 255
    assert np.abs(result - expected.clip(0, 255)).max() < 0.5 + 1e-3


@pytest.mark.parametrize(
    "shape", [(1, 5000), (5000, 1), (3, 701), (60, 1501), (1501, 60), (97, 89)]
)
@pytest.mark.parametrize("size", [29, 128])
def test_a_window_alone_has_the_values_of_the_resized_picture(shape, size, monkeypatch):
    rng = np.random.default_rng(size)
    picture = rng.choice([0, 3, 90, 128, 255], (*shape, 3)).astype(np.uint8)
    for crop, kernel in (("torchvision", resample.BILINEAR), ("clip", resample.BICUBIC)):
        for fraction in (0.875, 1.0):
            shorter = round(size / fraction)
            height, width = (shorter * side // min(shape) for side in shape)
            top, left = (round((side - size) / 2) for side in (height, width))
            resized = np.asarray(PIL.Image.fromarray(picture).resize((width, height), kernel))
            with monkeypatch.context() as patch:
                patch.setattr(resample, "_MOST_PIXELS", 0)
                found = EVALUATION_CROPS[crop](picture, size, fraction)
            np.testing.assert_array_equal(found, resized[top : top + size, left : left + size])


_THIN = """
import io, resource
import numpy as np, PIL.Image
from xmodal.data.pixels.augment import AugmentConfig
from xmodal.data.pixels.images import EVALUATION_CROPS, ImageConfig, prepare_images

def prepare(shape):
    file = io.BytesIO()
    PIL.Image.fromarray(np.arange(np.prod(shape)).reshape(shape).astype(np.uint8)).save(file, "PNG")
    for recipe in EVALUATION_CROPS:
        for fraction in (0.875, 1.0):
            config = ImageConfig(size=224, eval_transform=recipe, eval_crop=fraction)
            prepare_images([file.getvalue()], config)
    prepare_images([file.getvalue()], ImageConfig(size=224, patch=32))
    for filter in ("bilinear", "bicubic"):
        config = ImageConfig(size=224, augment=AugmentConfig(filter=filter))
        prepare_images([file.getvalue()] * 2, config, np.array([[1, 2], [3, 4]]))

prepare((300, 300))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for shape in ((1, 60_000), (60_000, 1), (2, 20_000), (20_000, 3)):
    prepare(shape)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_thin_pictures_are_prepared_in_the_memory_of_others():
    command = [sys.executable, "-c", _THIN]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert int(run.stdout) < 20_000  # KB; whole resized pictures of 60,000 x 1 would need 12 GB.


@pytest.mark.parametrize(("height", "width"), SHAPES)
def test_torchvision_crop_equals_torch(height, width):
    """Scales the shorter side to 32 and the longer in proportion, rounded down; then crops."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(height)
    picture = rng.integers(0, 256, (height, width, 3)).astype(np.uint8)
    config = ImageConfig(size=28, eval_crop=0.875, eval_transform="torchvision")
    result = prepare_images([_png(picture)], config)[0]
    shorter = min(height, width)
    sides = [int(32 * side / shorter) for side in (height, width)]
    resized = torch.nn.functional.interpolate(
        torch.tensor(picture).permute(2, 0, 1)[None].float(), sides, mode="bilinear", antialias=True
    )[0].permute(1, 2, 0)
    top, left = (round((side - 28) / 2) for side in sides)
    expected = resized[top : top + 28, left : left + 28].numpy()
    # PIL rounds after each of the two axes.
    assert np.abs(result - expected).max() <= 1.01


def _pil_axis(image, size):
    """Antialiased bicubic interpolation (a = -0.5) along the first axis, rounded and clipped."""
    scale = image.shape[0] / size
    stretch, rows = max(scale, 1.0), []
    for out in range(size):
        center = (out + 0.5) * scale
        first = max(int(center - 2 * stretch + 0.5), 0)
        last = min(int(center + 2 * stretch + 0.5), image.shape[0])
        weights = [_cubic((i + 0.5 - center) / stretch, a=-0.5) for i in range(first, last)]
        total = sum(weights)
        rows.append(sum(w / total * image[i] for i, w in enumerate(weights, first)))
    return np.floor(np.stack(rows) + 0.5).clip(0, 255)


def _pil_bicubic(picture, height, width):
    """PIL resizes the rows first, then the columns, and rounds both times."""
    lines = _pil_axis(picture.astype(np.float64).swapaxes(0, 1), width).swapaxes(0, 1)
    return _pil_axis(lines, height)


@pytest.mark.parametrize(("height", "width"), SHAPES)
def test_crops_of_clip_and_siglip_equal_plain_loops(height, width):
    """openai/CLIP's transform, open_clip's "squash" and big_vision's `resize`."""
    rng = np.random.default_rng(height)
    picture = rng.choice([0, 3, 128, 255], (height, width, 3)).astype(np.uint8)
    config = ImageConfig(size=28, eval_crop=1.0, eval_transform="clip")
    shorter = min(height, width)
    sides = [int(28 * side / shorter) for side in (height, width)]
    top, left = (round((side - 28) / 2) for side in sides)
    found = prepare_images([_png(picture)], config)[0]
    expected = _pil_bicubic(picture, *sides)[top : top + 28, left : left + 28]
    assert np.abs(found - expected).max() <= 1
    assert (found != expected).mean() < 1e-3

    squash = dataclasses.replace(config, eval_transform="squash")
    found = prepare_images([_png(picture)], squash)[0]
    expected = _pil_bicubic(picture, 28, 28)
    assert np.abs(found - expected).max() <= 1
    assert (found != expected).mean() < 1e-3

    squash = dataclasses.replace(config, eval_transform="squash_bilinear")
    found = prepare_images([_png(picture)], squash)[0]
    expected = PIL.Image.fromarray(picture).resize((28, 28), PIL.Image.Resampling.BILINEAR)
    np.testing.assert_array_equal(found, expected)

    found = prepare_images(
        [_png(picture)], dataclasses.replace(config, eval_transform="big_vision")
    )[0]
    expected = tf.cast(tf.image.resize(picture, [28, 28], "bilinear", antialias=False), tf.uint8)
    np.testing.assert_array_equal(found, expected)
    half = dataclasses.replace(config, eval_transform="big_vision", eval_crop=0.5)
    top, left = (int(side / 4) for side in (height, width))
    inner = picture[top : height - top, left : width - left]
    expected = tf.cast(tf.image.resize(inner, [28, 28], "bilinear", antialias=False), tf.uint8)
    np.testing.assert_array_equal(prepare_images([_png(picture)], half)[0], expected)


def test_training_crops_are_resized_with_the_filter_of_the_config():
    picture = np.random.default_rng(0).integers(0, 256, (40, 61, 3), np.uint8)
    ranges = {"area": (0.9, 1.0), "aspect": (3 / 4, 4 / 3), "crop": "torchvision"}
    for more in ({"flip": False, "color": False}, {}):
        augment = AugmentConfig(**ranges, filter="bicubic", **more)
        seeds = np.array([[5, number] for number in range(4)])
        config = ImageConfig(size=20, augment=augment)
        for seed, found in zip(
            seeds, prepare_images([_png(picture)] * 4, config, seeds), strict=True
        ):
            (top, left, rows, columns), mirrored, shift = draw(seed, 40, 61, augment)
            crop = _pil_bicubic(picture[top : top + rows, left : left + columns], 20, 20)
            crop = crop[:, ::-1] if mirrored else crop
            assert np.abs(found - (crop + shift).clip(0, 255)).max() <= 1.5
            assert not (mirrored and more)
        plain = dataclasses.replace(config, augment=dataclasses.replace(augment, filter="bilinear"))
        assert (prepare_images([_png(picture)], plain, seeds[:1])[0] != found).any()


@pytest.fixture(scope="module")
def coordinates():
    """A picture with the position of each pixel in the red and green channels."""
    ramp = np.arange(200, dtype=np.uint8)
    zeros = np.zeros((200, 200), np.uint8)
    return np.stack([zeros + ramp[None, :], zeros + ramp[:, None], zeros], axis=-1)


def _augmented(picture, seeds, size, config):
    seeds = np.array([[1234, seed] for seed in seeds])
    return prepare_images(
        [_png(picture)] * len(seeds), ImageConfig(size=size, augment=config), seeds
    )


@pytest.mark.slow
def test_crops_are_within_the_ranges_of_the_recipe_and_fill_them(coordinates):
    config = AugmentConfig(color=False)
    pictures = _augmented(coordinates, range(600), 200, config).astype(float)
    width = np.abs(pictures[:, 100, -1, 0] - pictures[:, 100, 0, 0]) + 1
    height = pictures[:, -1, 100, 1] - pictures[:, 0, 100, 1] + 1
    area, aspect = width * height / 200**2, width / height
    # One pixel of 200 is half a percent of a side, and the last value is rounded.
    assert area.min() > 0.67 - 0.02
    assert area.max() <= 1
    assert aspect.min() > 0.75 - 0.02
    assert aspect.max() < 1.33 + 0.02
    assert area.min() < 0.69
    assert area.max() > 0.97
    assert aspect.min() < 0.80
    assert aspect.max() > 1.26


def test_half_of_the_pictures_are_mirrored_whatever_the_crop(coordinates):
    pictures = _augmented(coordinates, range(600), 50, AugmentConfig(color=False)).astype(float)
    mirrored = pictures[:, 25, 0, 0] > pictures[:, 25, -1, 0]
    assert abs(mirrored.mean() - 0.5) < 0.07  # 3.4 standard deviations
    top = pictures[:, 0, 25, 1]
    assert abs(np.corrcoef(mirrored, top)[0, 1]) < 0.14
    assert not _mirrored_at_all(_augmented(coordinates, range(50), 50, AugmentConfig(flip=False)))


def _mirrored_at_all(pictures):
    return np.any(pictures[:, 25, 0, 0].astype(int) > pictures[:, 25, -1, 0])


def test_color_shift_is_the_stated_formula():
    gray = np.full((40, 40, 3), 128, np.uint8)
    pictures = _augmented(gray, range(500), 4, AugmentConfig()).astype(float)
    # One shift for the whole image; interpolation may change the last bit.
    assert np.ptp(pictures, axis=(1, 2)).max() <= 1
    red, green, blue = (pictures.mean(axis=(1, 2)) - 128).T / 255
    # Inverse of R += 1.402 cr + br, B += 1.772 cb + br, G += -0.344136 cb - 0.714136 cr + br.
    weights = np.array([[1, 0, 1.402], [1, -0.344136, -0.714136], [1, 1.772, 0]])
    brightness, cb, cr = np.linalg.inv(weights) @ np.stack([red, green, blue])
    for shift, limit in ((brightness, 32 / 255), (cb, 0.1), (cr, 0.1)):
        assert np.abs(shift).max() < limit + 0.006  # the rounding to uint8
        assert shift.max() > 0.95 * limit
        assert shift.min() < -0.95 * limit
        assert abs(shift.mean()) < 0.15 * limit
    assert abs(np.corrcoef(cb, cr)[0, 1]) < 0.16


def test_colors_are_clipped_and_not_wrapped():
    white = np.full((9, 9, 3), 255, np.uint8)
    assert _augmented(white, range(60), 3, AugmentConfig()).min() > 255 - 32 - 60
    assert _augmented(255 - white, range(60), 3, AugmentConfig()).max() < 32 + 60


def test_the_seed_decides_and_nothing_else():
    rng = np.random.default_rng(0)
    files = [_png(rng.integers(0, 256, (31, 45, 3), dtype=np.uint8)) for _ in range(5)]
    config = ImageConfig(size=16, augment=AugmentConfig())
    seeds = np.stack([np.full(5, 9), np.arange(5)], axis=1)
    whole = prepare_images(files, config, seeds)
    again = prepare_images(files[3:], config, seeds[3:])
    np.testing.assert_array_equal(whole[3:], again)
    same_file = prepare_images([files[0]] * 5, config, seeds)
    assert len({picture.tobytes() for picture in same_file}) == 5
    other_epoch = prepare_images(files, config, seeds + [[1, 0]])
    assert not np.array_equal(whole, other_epoch)


@pytest.mark.parametrize(
    ("height", "width", "size"),
    [(60, 80, 64), (90, 50, 16), (200, 150, 41), (5, 2, 9), (64, 64, 32)],
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


@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA", "LA", "P", "1"])
def test_pngs_are_decoded_as_tensorflow_does(mode):
    pixels = np.random.default_rng(0).integers(0, 256, (13, 17, 4), np.uint8)
    picture = PIL.Image.fromarray(pixels).convert(mode)
    file = io.BytesIO()
    picture.save(file, "PNG", **({"transparency": 3} if mode == "P" else {}))
    expected = tf.io.decode_image(file.getvalue(), channels=3, expand_animations=False)
    np.testing.assert_array_equal(decode_image(file.getvalue()), expected)


@pytest.mark.parametrize("kind", ["GIF", "BMP", "WEBP"])
def test_other_formats_are_decoded_as_tensorflow_does(kind):
    pixels = np.random.default_rng(0).integers(0, 256, (13, 17, 3), np.uint8)
    picture, file = PIL.Image.fromarray(pixels), io.BytesIO()
    more = {"save_all": True, "append_images": [picture.rotate(90)]} if kind == "GIF" else {}
    picture.save(file, kind, **more)
    expected = tf.io.decode_image(file.getvalue(), channels=3, expand_animations=False)
    np.testing.assert_array_equal(decode_image(file.getvalue()), expected)


def test_a_jpeg_with_a_recoverable_error_is_decoded():
    file = io.BytesIO()
    picture = np.random.default_rng(0).integers(0, 256, (37, 51, 3), np.uint8)
    PIL.Image.fromarray(picture).save(file, "JPEG", quality=95)
    middle = len(file.getvalue()) // 2
    damaged = file.getvalue()[:middle] + b"\xff\xd0" + file.getvalue()[middle:]
    assert decode_image(damaged).shape == tf.io.decode_image(damaged, channels=3).shape


@pytest.mark.parametrize(("height", "width", "size"), [(340, 256, 155), (27, 142, 112), (5, 9, 20)])
def test_bicubic_resizing_equals_that_of_tensorflow_1(height, width, size):
    picture = np.random.default_rng(size).integers(0, 256, (height, width, 3), np.uint8)
    resized = tf.compat.v1.image.resize_bicubic(picture[None], [size, size])[0]
    expected = tf.saturate_cast(tf.round(resized), tf.uint8)
    np.testing.assert_array_equal(resize_bicubic(picture, size), expected)


@pytest.mark.parametrize("seeds", [None, np.array([[1, 2]])])
@pytest.mark.parametrize(
    "damage",
    [lambda file: file[:40], lambda file: file[:-9], lambda file: b"", lambda file: b"GIF"],
)
def test_damaged_images_are_refused(damage, seeds):
    file = io.BytesIO()
    PIL.Image.fromarray(np.zeros((9, 9, 3), np.uint8)).save(file, "JPEG")
    config = ImageConfig(size=8, augment=AugmentConfig())
    with pytest.raises(ValueError, match="image"):
        prepare_images([damage(file.getvalue())], config, seeds)


def test_a_decompression_bomb_is_refused_before_it_is_decoded():
    jpeg, png = io.BytesIO(), bytearray(_png(np.zeros((9, 9, 3), np.uint8)))
    PIL.Image.fromarray(np.zeros((9, 9, 3), np.uint8)).save(jpeg, "JPEG")
    large_jpeg, sides = bytearray(jpeg.getvalue()), (60_000).to_bytes(2, "big") * 2
    start = large_jpeg.index(b"\xff\xc0") + 5
    large_jpeg[start : start + 4] = sides
    png[16:24] = (60_000).to_bytes(4, "big") * 2
    png[29:33] = zlib.crc32(png[12:29]).to_bytes(4, "big")
    for bomb in (bytes(large_jpeg), bytes(png)):
        with pytest.raises(ValueError, match="^too many pixels: (Image size|60,000 x)"):
            decode_image(bomb)


def test_without_augmentation_training_sees_the_evaluation_crop():
    files = [_png(np.random.default_rng(1).integers(0, 256, (31, 45, 3), np.uint8))]
    config = ImageConfig(size=16)
    np.testing.assert_array_equal(
        prepare_images(files, config, np.array([[1, 2]])), prepare_images(files, config)
    )


def test_sizes_must_fit_the_kind_of_images():
    check_size(ImageConfig(size=0), is_encoded=False)
    with pytest.raises(ValueError, match=r"data.image.size=8.*features: set 0"):
        check_size(ImageConfig(size=8), is_encoded=False)
    with pytest.raises(ValueError, match=r"data.image.size=0.*set the side"):
        check_size(ImageConfig(size=0), is_encoded=True)
