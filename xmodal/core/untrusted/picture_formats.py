"""Opens pictures from elsewhere: formats, number of pixels, and their conversion to 8-bit RGB.

Building a dataset, embedding, search and pages read the same files.
"""

import io
import os

import numpy as np
import PIL.features
import PIL.Image

MAX_PIXELS = 2**26
"""8,192 x 8,192. Photographs are far smaller; larger images are mistakes or attacks."""

# Some of Pillow's other formats (EPS, PDF) start external programs or contain no picture.
_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "AVIF")

IMAGE_ENDINGS = (
    ".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff",
    *((".avif",) if PIL.features.check("avif") else ()),
)  # fmt: skip


class TooManyPixelsError(ValueError):
    """A picture whose header claims more than `MAX_PIXELS`."""


def is_picture(name: str) -> bool:
    """Returns whether a file is read as a picture, according to its ending."""
    return name.lower().endswith(IMAGE_ENDINGS)


def open_picture(source: bytes | str | os.PathLike) -> PIL.Image.Image:
    """Reads the header of a picture; the pixels are decoded when they are needed.

    Args:
      source: the encoded picture, or its path.

    Raises:
      TooManyPixelsError: it is too large.
      PIL.UnidentifiedImageError: it is not a picture, or of a format that is not read.
      Exception: damaged files make Pillow raise all kinds of errors.
    """
    file = io.BytesIO(source) if isinstance(source, bytes) else source
    try:
        picture = PIL.Image.open(file, formats=_FORMATS)
    except PIL.Image.DecompressionBombError as error:
        raise TooManyPixelsError(str(error)) from error
    check_pixels(picture.width, picture.height)
    return picture


def check_pixels(width: int, height: int) -> None:
    """Raises an error if a picture of this size is not decoded.

    Raises:
      TooManyPixelsError: it is too large.
    """
    if width * height > MAX_PIXELS:
        raise TooManyPixelsError(f"{width:,} x {height:,}, more than {MAX_PIXELS:,}")


def to_rgb(picture: PIL.Image.Image) -> PIL.Image.Image:
    """Returns a picture as RGB, with transparent pixels on white; see `to_eight_bits`."""
    picture = to_eight_bits(picture)
    if picture.has_transparency_data:
        picture = picture.convert("RGBA")
        white = PIL.Image.new("RGBA", picture.size, "white")
        picture = PIL.Image.alpha_composite(white, picture)
    return picture.convert("RGB")


def to_eight_bits(picture: PIL.Image.Image) -> PIL.Image.Image:
    """Returns a gray picture of 16 or 32 bits scaled to 8 bits and rounded, and others unchanged.

    White is 65,535, or 1 if values are floating point, or the largest value if that is more.
    Pillow itself would clip values above 255 or keep the upper eight bits.
    """
    if picture.mode != "F" and not picture.mode.startswith("I"):
        return picture
    pixels = np.asarray(picture, np.float64)
    white = max(1.0 if picture.mode == "F" else 65535.0, float(pixels.max()))
    return PIL.Image.fromarray(np.clip(pixels / white * 255, 0, 255).round().astype(np.uint8))
