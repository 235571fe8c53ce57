"""Checks encoded images; keeps valid ones byte for byte, and converts or rejects others."""

import io
import warnings

import PIL.ExifTags
import PIL.Image
import PIL.ImageOps
import simplejpeg

from data_prep.building.record_counts import BadImageError
from xmodal.core.untrusted.picture_formats import TooManyPixelsError, open_picture, to_rgb

# Pillow requires only the pixels; other decoders also require the last chunk and its checksum.
_PNG_END = b"IEND\xaeB`\x82"


def checked_image(encoded: bytes, *, upright: bool = False) -> bytes:
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
        try:
            return _checked(encoded, upright)
        except PIL.UnidentifiedImageError as error:
            raise BadImageError("not an image", f"starts with {encoded[:12]!r}") from error
        except TooManyPixelsError as error:
            raise BadImageError("too many pixels", str(error)) from error
        except Exception as error:  # Damaged files make Pillow raise all kinds of errors.
            text = f"{type(error).__name__}: {error}"
            cut = isinstance(error, EOFError) or "truncated" in text.lower()
            raise BadImageError("truncated image" if cut else "damaged image", text) from error


def _checked(encoded: bytes, upright: bool) -> bytes:
    image = open_picture(encoded)
    is_turned, is_kept = upright and _is_turned(image), _is_kept(image, encoded)
    if is_kept:
        _decode(image, encoded)
        if not is_turned:
            return encoded
    pixels = to_rgb(PIL.ImageOps.exif_transpose(image) if is_turned else image)
    converted = io.BytesIO()
    if is_kept and _format(image) == "JPEG":
        pixels.save(converted, "JPEG", quality=95, subsampling="4:4:4")
    else:
        pixels.save(converted, "PNG")
    return converted.getvalue()


def _is_turned(image: PIL.Image.Image) -> bool:
    try:
        return image.getexif().get(PIL.ExifTags.Base.Orientation) in range(2, 9)
    except Exception:  # The tag of a valid image may be damaged; see above.
        return False


def _decode(image: PIL.Image.Image, encoded: bytes) -> None:
    """Decodes like `xmodal.data.pixels.images.decode_image`, for training to read stored images."""
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


def _is_kept(image: PIL.Image.Image, encoded: bytes) -> bool:
    """Whether an image is an 8-bit RGB or gray JPEG or PNG."""
    name = _format(image)
    # Pillow silently truncates 16-bit colors; a PNG's header has the depth at a fixed position.
    if name not in ("JPEG", "PNG") or (name == "PNG" and encoded[24] != 8):
        return False
    return "transparency" not in image.info and image.mode in ("RGB", "L")


def _format(image: PIL.Image.Image) -> str:
    # An MPO is a JPEG with further pictures after the first.
    return "JPEG" if image.format == "MPO" else str(image.format)
