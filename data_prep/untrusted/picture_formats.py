"""Opens pictures from elsewhere: which formats are read, and how many pixels are decoded.

Building a dataset, embedding, search and pages read the same files.
"""

import io
import os

import PIL.Image

MAX_PIXELS = 2**26
"""8,192 x 8,192. Photographs are far smaller; larger images are mistakes or attacks."""

# Some of Pillow's other formats (EPS, PDF) start external programs or contain no picture.
_FORMATS = ("JPEG", "MPO", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "AVIF")


class TooManyPixelsError(ValueError):
    """A picture whose header claims more than `MAX_PIXELS`."""


def open_picture(source: bytes | str | os.PathLike) -> PIL.Image.Image:
    """Reads the header of a picture; the pixels are decoded when they are needed.

    Args:
      source: the encoded picture, or its path.

    Raises:
      TooManyPixelsError: it is too large.
      PIL.UnidentifiedImageError: it is not a picture, or of a format that is not read.
      Exception: damaged files make Pillow raise all kinds of errors.
    """
    PIL.Image.init()
    formats = [name for name in _FORMATS if name in PIL.Image.OPEN]
    file = io.BytesIO(source) if isinstance(source, bytes) else source
    try:
        picture = PIL.Image.open(file, formats=formats)
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
