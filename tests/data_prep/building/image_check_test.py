"""Checks of image files of every kind, whole and damaged."""

import io
import struct
import zlib

import numpy as np
import PIL.Image
import pytest
import tensorflow as tf

from data_prep.building import image_check
from data_prep.building.image_check import BadImageError, checked_image

_SHAPE = (37, 53)


def _picture():
    coarse = np.random.default_rng(0).integers(0, 256, (5, 6, 3), dtype=np.uint8)
    return PIL.Image.fromarray(coarse).resize(_SHAPE[::-1])


def _encode(image, name, **options):
    file = io.BytesIO()
    image.save(file, name, **options)
    return file.getvalue()


def _decode(encoded):
    """Pixels by the decoder of training."""
    return tf.io.decode_image(encoded, channels=3, expand_animations=False).numpy()


@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize(
    ("name", "options"),
    [("JPEG", {}), ("JPEG", {"progressive": True}), ("PNG", {}), ("PNG", {"optimize": True})],
)
def test_rgb_and_grey_jpeg_and_png_pass_byte_for_byte(mode, name, options):
    encoded = _encode(_picture().convert(mode), name, **options)
    assert checked_image(encoded) == image_check.CheckedImage(encoded, "")
    assert checked_image(encoded + b"appended by a server").encoded.startswith(encoded)


def test_an_image_of_one_pixel_passes():
    encoded = _encode(PIL.Image.new("RGB", (1, 1)), "JPEG")
    assert checked_image(encoded).encoded == encoded


@pytest.mark.parametrize(
    ("name", "mode", "kind"),
    [
        ("JPEG", "CMYK", "CMYK JPEG"),
        ("PNG", "P", "P PNG"),
        ("PNG", "1", "1-bit PNG"),
        ("PNG", "RGBA", "RGBA PNG"),
        ("PNG", "LA", "LA PNG"),
        ("GIF", "P", "GIF"),
        ("BMP", "RGB", "BMP"),
        ("TIFF", "RGB", "TIFF"),
        ("TIFF", "CMYK", "TIFF"),
        ("PPM", "RGB", "PPM"),
    ],
)
def test_other_kinds_become_rgb_pngs_of_the_same_pixels(name, mode, kind):
    encoded = _encode(_picture().convert(mode), name)
    checked = checked_image(encoded)
    assert checked.converted == kind
    stored = PIL.Image.open(io.BytesIO(checked.encoded))
    assert (stored.format, stored.mode, stored.size) == ("PNG", "RGB", _SHAPE[::-1])
    expected = np.asarray(PIL.Image.open(io.BytesIO(encoded)).convert("RGB"))
    np.testing.assert_array_equal(_decode(checked.encoded), expected)


def test_webp_is_converted_where_pillow_reads_it():
    if not PIL.features.check("webp"):
        pytest.skip("this Pillow has no WebP")
    encoded = _encode(_picture(), "WEBP", lossless=True)
    checked = checked_image(encoded)
    assert checked.converted == "WEBP"
    np.testing.assert_array_equal(_decode(checked.encoded), np.asarray(_picture()))


def test_sixteen_bits_are_scaled_and_not_clipped():
    pixels = np.linspace(0, 65535, 37 * 53).reshape(_SHAPE).astype(np.uint16)
    for name in ("PNG", "TIFF"):
        checked = checked_image(_encode(PIL.Image.fromarray(pixels), name))
        assert checked.converted == {"PNG": "16-bit PNG", "TIFF": "TIFF"}[name]
        found = _decode(checked.encoded)[..., 0].astype(np.float64)
        np.testing.assert_allclose(found, pixels / 257.0, atol=0.51)


def test_transparent_pixels_lie_on_white_and_of_an_animation_the_first_picture_is_taken():
    hidden = PIL.Image.new("RGBA", (4, 4), (10, 20, 30, 0))
    assert (_decode(checked_image(_encode(hidden, "PNG")).encoded) == 255).all()
    palette = _picture().convert("P")
    encoded = _encode(palette, "PNG", transparency=palette.getpixel((0, 0)))
    assert (_decode(checked_image(encoded).encoded)[0, 0] == 255).all()
    red, blue = (PIL.Image.new("RGB", (4, 4), color) for color in ("red", "blue"))
    animation = _encode(red, "GIF", save_all=True, append_images=[blue])
    assert _decode(checked_image(animation).encoded)[0, 0].tolist() == [255, 0, 0]


def _damaged():
    jpeg, png = _encode(_picture(), "JPEG"), _encode(_picture(), "PNG")
    flipped = bytearray(png)
    flipped[len(png) // 2] ^= 255
    webp = _encode(_picture(), "BMP")
    return {
        "nothing": (b"", "no bytes"),
        "a page": (b"<html>404 not found</html>", "not an image"),
        "zeros": (bytes(1000), "not an image"),
        "a header": (jpeg[:20], "truncated image|not an image"),
        "half a jpeg": (jpeg[: len(jpeg) // 2], "truncated image"),
        "a jpeg without its end": (jpeg[:-2], "truncated image"),
        "half a png": (png[: len(png) // 2], "truncated image"),
        "a png without its end": (png[:-1], "truncated image"),
        "a flipped bit": (bytes(flipped), "damaged image"),
        "half a bitmap": (webp[: len(webp) // 2], "truncated image"),
        "a script": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not an image"),
    }


@pytest.mark.parametrize("name", _damaged())
def test_damaged_files_are_refused_with_a_reason(name):
    encoded, reason = _damaged()[name]
    with pytest.raises(BadImageError, match=f"^({reason})") as error:
        checked_image(encoded)
    assert error.value.reason in reason.split("|")
    if name != "half a bitmap":  # bitmaps are not stored as they are
        with pytest.raises(tf.errors.InvalidArgumentError):
            _decode(encoded)


def test_what_is_kept_can_be_decoded_by_training_whatever_was_flipped():
    rng = np.random.default_rng(0)
    kept = 0
    for name, options in (("JPEG", {}), ("JPEG", {"progressive": True}), ("PNG", {})):
        for _ in range(40):
            encoded = bytearray(_encode(_picture(), name, **options))
            for place in rng.integers(0, len(encoded), 3):
                encoded[place] = rng.integers(256)
            try:
                checked = checked_image(bytes(encoded[: rng.integers(1, 3 * len(encoded))]))
            except BadImageError:
                continue
            assert _decode(checked.encoded).shape[2] == 3
            kept += 1
    assert kept > 5


def test_far_too_large_images_are_refused_before_they_are_decoded(monkeypatch):
    small = _encode(_picture(), "PNG")
    header = b"IHDR" + struct.pack(">II", 30_000, 9_000) + small[24:29]
    bomb = small[:12] + header + struct.pack(">I", zlib.crc32(header)) + small[33:]
    with pytest.raises(BadImageError, match="too many pixels"):
        checked_image(bomb)
    monkeypatch.setattr(image_check, "MAX_PIXELS", 100)
    with pytest.raises(BadImageError, match="too many pixels: 53 x 37, more than 100"):
        checked_image(_encode(_picture(), "JPEG"))
