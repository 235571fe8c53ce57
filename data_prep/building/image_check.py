"""Checks encoded images; keeps valid ones byte for byte, and converts or rejects others."""

import dataclasses
import io
import warnings

import PIL.ExifTags
import PIL.Image
import PIL.ImageOps
import simplejpeg

from xmodal.core.errors import BadImageError
from xmodal.core.untrusted.picture_formats import TooManyPixelsError, open_picture, to_rgb

# An MPO is a JPEG with further pictures after the first.
_KEPT_FORMATS = ("JPEG", "MPO", "PNG")
# Pillow requires only the pixels; other decoders also require the last chunk and its checksum.
_PNG_END = b"IEND\xaeB`\x82"
_TURNED_JPEG = {"quality": 95, "subsampling": "4:4:4"}


@dataclasses.dataclass(frozen=True)
class CheckedImage:
    """An image that training can decode.

    Attributes:
      encoded: an RGB or gray JPEG or PNG with 8 bits per channel.
      converted: its original format, such as "CMYK JPEG", "16-bit PNG" or "turned JPEG"; "" if
        the bytes are unchanged.
    """

    encoded: bytes
    converted: str = ""


def checked_image(encoded: bytes, *, upright: bool = False) -> CheckedImage:
    """Decodes an image once and converts it unless it is 8-bit RGB or gray JPEG or PNG.

    Converted images are RGB PNGs of the same pixels: 16 bits are scaled to 8, transparent pixels
    become white, and only the first picture of an animation is used. Rotated JPEGs stay JPEGs.

    Args:
      encoded: content of the file.
      upright: whether to rotate the image according to its EXIF orientation, which the training
        decoders ignore, as does published code.

    Raises:
      BadImageError: the file cannot be decoded completely, or is far too large.
    """
    with warnings.catch_warnings():
        # Pillow warns of large images and of odd tags; those that matter are errors below.
        warnings.simplefilter("ignore")
        image = _open(encoded)
        kind = _kind(image, encoded)
        try:
            if not kind:
                _decode(image, encoded)
                if not (upright and _is_turned(image)):
                    return CheckedImage(encoded)
                kind = f"turned {_format(image)}"
            converted = io.BytesIO()
            pixels = to_rgb(_upright(image) if upright else image)
            if kind == "turned JPEG":
                pixels.save(converted, "JPEG", **_TURNED_JPEG)
            else:
                pixels.save(converted, "PNG")
        except Exception as error:  # Damaged files make Pillow raise all kinds of errors.
            raise _bad_image(error) from error
        return CheckedImage(converted.getvalue(), kind)


def _upright(image: PIL.Image.Image) -> PIL.Image.Image:
    return PIL.ImageOps.exif_transpose(image) if _is_turned(image) else image


def _is_turned(image: PIL.Image.Image) -> bool:
    try:
        return image.getexif().get(PIL.ExifTags.Base.Orientation) in range(2, 9)
    except Exception:  # The tag of a valid image may be damaged; see above.
        return False


def _open(encoded: bytes) -> PIL.Image.Image:
    if not encoded:
        raise BadImageError("no bytes")
    try:
        return open_picture(encoded)
    except PIL.UnidentifiedImageError as error:
        raise BadImageError("not an image", f"starts with {encoded[:12]!r}") from error
    except TooManyPixelsError as error:
        raise BadImageError("too many pixels", str(error)) from error
    except Exception as error:  # see above
        raise _bad_image(error) from error


def _decode(image: PIL.Image.Image, encoded: bytes) -> None:
    """Decodes like `xmodal.data.pixels.images.decode_image`, for training to read stored images.

    A test compares the two on damaged files.
    """
    if image.format == "PNG":
        image.load()
        if _PNG_END not in encoded:
            raise EOFError("a PNG without its end")
        return
    try:
        simplejpeg.decode_jpeg(encoded, fastdct=True)
    except ValueError as error:
        if "Premature end" in str(error):
            raise EOFError(f"truncated: {error}") from error
        image.load()  # Pillow recovers from more kinds of damage.


def _kind(image: PIL.Image.Image, encoded: bytes) -> str:
    """Format of an image that must be converted; "" if it can be kept."""
    name = _format(image)
    if image.format not in _KEPT_FORMATS:
        return name
    # Pillow silently truncates 16-bit colors; a PNG's header has the depth at a fixed position.
    if image.format == "PNG" and encoded[24] != 8:
        return f"{encoded[24]}-bit PNG"
    if "transparency" in image.info:
        return f"transparent {name}"
    return "" if image.mode in ("RGB", "L") else f"{image.mode} {name}"


def _format(image: PIL.Image.Image) -> str:
    return "JPEG" if image.format == "MPO" else str(image.format)


def _bad_image(error: Exception) -> BadImageError:
    text = f"{type(error).__name__}: {error}"
    cut = isinstance(error, EOFError) or "truncated" in text.lower()
    return BadImageError("truncated image" if cut else "damaged image", text)
