"""Checks of image files of every kind, intact and damaged."""

import io

import numpy as np
import PIL.Image
import pytest

from data_prep.building.image_check import checked_image
from data_prep.building.record_counts import BadImageError
from xmodal.data.pixels.images import decode_image, decode_upright

_SHAPE = (37, 53)


def _picture():
    coarse = np.random.default_rng(0).integers(0, 256, (5, 6, 3), dtype=np.uint8)
    return PIL.Image.fromarray(coarse).resize(_SHAPE[::-1])


def _encode(image, name, **options):
    file = io.BytesIO()
    image.save(file, name, **options)
    return file.getvalue()


@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize(("name", "options"), [("JPEG", {"progressive": True}), ("PNG", {})])
def test_rgb_and_grey_jpeg_and_png_pass_byte_for_byte(mode, name, options):
    encoded = _encode(_picture().convert(mode), name, **options)
    assert checked_image(encoded) == encoded
    assert checked_image(encoded + b"appended by a server").startswith(encoded)


@pytest.mark.parametrize(
    ("name", "mode"),
    [("JPEG", "CMYK"), ("PNG", "1"), ("PNG", "RGBA"), ("GIF", "P"), ("TIFF", "CMYK")],
)
def test_other_kinds_become_rgb_pngs_of_the_same_pixels(name, mode):
    encoded = _encode(_picture().convert(mode), name)
    checked = checked_image(encoded)
    stored = PIL.Image.open(io.BytesIO(checked))
    assert (stored.format, stored.mode, stored.size) == ("PNG", "RGB", _SHAPE[::-1])
    expected = np.asarray(PIL.Image.open(io.BytesIO(encoded)).convert("RGB"))
    np.testing.assert_array_equal(decode_image(checked), expected)


_TRANSPOSE = PIL.Image.Transpose
_TURNS = [
    lambda image: image,
    lambda image: image.transpose(_TRANSPOSE.FLIP_LEFT_RIGHT),
    lambda image: image.rotate(180),
    lambda image: image.transpose(_TRANSPOSE.FLIP_TOP_BOTTOM),
    lambda image: image.rotate(90, expand=True).transpose(_TRANSPOSE.FLIP_TOP_BOTTOM),
    lambda image: image.rotate(90, expand=True),
    lambda image: image.rotate(270, expand=True).transpose(_TRANSPOSE.FLIP_TOP_BOTTOM),
    lambda image: image.rotate(270, expand=True),
]
"""What a camera did to an upright picture, by EXIF's orientation, from 1 on."""


@pytest.mark.parametrize(("name", "mode"), [("JPEG", "L"), ("PNG", "RGB"), ("TIFF", "RGB")])
def test_turned_images_stand_upright_where_that_is_asked_for(name, mode):
    upright = _picture().resize((80, 64)).convert(mode)
    expected = np.asarray(upright.convert("RGB"), np.float64)
    options = {"JPEG": {"quality": 98}}.get(name, {})
    for orientation, turn in enumerate(_TURNS, 1):
        exif = PIL.Image.Exif()
        exif[0x0112] = orientation
        encoded = _encode(turn(upright), name, exif=exif, **options)
        checked = checked_image(encoded, upright=True)
        assert (checked == encoded) == (orientation == 1 and name != "TIFF")
        for pixels in (decode_image(checked), decode_upright(encoded)):
            assert pixels.shape == expected.shape
            assert abs(pixels - expected).mean() < (4 if name == "JPEG" else 1e-9)
        # The result is rotated exactly once, whatever reads it.
        np.testing.assert_array_equal(decode_upright(checked), decode_image(checked))


def _damaged():
    jpeg, png = _encode(_picture(), "JPEG"), _encode(_picture(), "PNG")
    flipped = bytearray(png)
    flipped[len(png) // 2] ^= 255
    return {
        "nothing": (b"", "not an image"),
        "a page": (b"<html>404 not found</html>", "not an image"),
        "half a jpeg": (jpeg[: len(jpeg) // 2], "truncated image"),
        "a jpeg without its end": (jpeg[:-2], "truncated image"),
        "a png without its end": (png[:-1], "truncated image"),
        "a flipped bit": (bytes(flipped), "damaged image"),
    }


@pytest.mark.parametrize("name", _damaged())
def test_damaged_files_are_refused_with_a_reason(name):
    encoded, reason = _damaged()[name]
    with pytest.raises(BadImageError, match=f"^{reason}"):
        checked_image(encoded)
    if name != "a png without its end":  # Pillow, which training reads PNGs with, has all pixels
        with pytest.raises(ValueError, match=r"damaged|cut short"):
            decode_image(encoded)
