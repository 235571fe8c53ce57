"""Checks of image files of every kind, intact and damaged."""

import io

import numpy as np
import PIL.Image
import pytest

from data_prep.building import image_check
from data_prep.building.image_check import checked_image
from xmodal.core.errors import BadImageError
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
    assert checked_image(encoded) == image_check.CheckedImage(encoded, "")
    assert checked_image(encoded + b"appended by a server").encoded.startswith(encoded)


@pytest.mark.parametrize(
    ("name", "mode", "kind"),
    [
        ("JPEG", "CMYK", "CMYK JPEG"),
        ("PNG", "1", "1-bit PNG"),
        ("PNG", "RGBA", "RGBA PNG"),
        ("GIF", "P", "GIF"),
        ("TIFF", "CMYK", "TIFF"),
    ],
)
def test_other_kinds_become_rgb_pngs_of_the_same_pixels(name, mode, kind):
    encoded = _encode(_picture().convert(mode), name)
    checked = checked_image(encoded)
    assert checked.converted == kind
    stored = PIL.Image.open(io.BytesIO(checked.encoded))
    assert (stored.format, stored.mode, stored.size) == ("PNG", "RGB", _SHAPE[::-1])
    expected = np.asarray(PIL.Image.open(io.BytesIO(encoded)).convert("RGB"))
    np.testing.assert_array_equal(decode_image(checked.encoded), expected)


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


@pytest.mark.parametrize(
    ("name", "mode", "kind"),
    [
        ("JPEG", "L", "turned JPEG"),
        ("PNG", "RGB", "turned PNG"),
        ("TIFF", "RGB", "TIFF"),
    ],
)
def test_turned_images_stand_upright_where_that_is_asked_for(name, mode, kind):
    upright = _picture().resize((80, 64)).convert(mode)
    expected = np.asarray(upright.convert("RGB"), np.float64)
    options = {"JPEG": {"quality": 98}}.get(name, {})
    for orientation, turn in enumerate(_TURNS, 1):
        exif = PIL.Image.Exif()
        exif[0x0112] = orientation
        encoded = _encode(turn(upright), name, exif=exif, **options)
        checked = checked_image(encoded, upright=True)
        assert checked.converted == (kind if orientation > 1 or "turned" not in kind else "")
        for pixels in (decode_image(checked.encoded), decode_upright(encoded)):
            assert pixels.shape == expected.shape
            assert abs(pixels - expected).mean() < (4 if name == "JPEG" else 1e-9)
        # The result is rotated exactly once, whatever reads it.
        np.testing.assert_array_equal(
            decode_upright(checked.encoded), decode_image(checked.encoded)
        )


def _damaged():
    jpeg, png = _encode(_picture(), "JPEG"), _encode(_picture(), "PNG")
    flipped = bytearray(png)
    flipped[len(png) // 2] ^= 255
    return {
        "nothing": (b"", "no bytes"),
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
        with pytest.raises(ValueError, match=r"damaged|cut short|empty file"):
            decode_image(encoded)


def _broken(encoded, rng):
    """The file without its last two bytes, truncated, with 1 to 3 bytes changed, or a gap."""
    yield encoded[:-2]
    yield encoded[: rng.integers(len(encoded))]
    for count in (1, 3):
        flipped = bytearray(encoded)
        for place in rng.integers(0, len(encoded), count):
            flipped[place] = rng.integers(256)
        yield bytes(flipped)
    place = rng.integers(len(encoded))
    yield encoded[:place] + bytes(9) + encoded[place + 9 :]


@pytest.mark.parametrize("name", ["JPEG", "PNG"])
def test_an_image_is_kept_if_and_only_if_training_can_decode_it(name):
    rng = np.random.default_rng(0)
    kept = 0
    for _ in range(60):
        for damaged in _broken(_encode(_picture().resize(rng.integers(1, 70, 2)), name), rng):
            try:
                checked = checked_image(damaged)
            except BadImageError as error:
                if name == "JPEG" and error.reason != "too many pixels":
                    with pytest.raises(ValueError, match=r"damaged|cut short|empty file"):
                        decode_image(damaged)
            else:
                kept += 1
                assert decode_image(checked.encoded).shape[2] == 3
    assert kept
