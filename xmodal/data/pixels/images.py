"""Turns encoded images into model inputs, with training augmentation and evaluation crops.

Pixels stay uint8 for the transfer to the device; the image encoder normalizes them.
"""

import concurrent.futures
import contextlib
import dataclasses
import os
from collections.abc import Sequence

import numpy as np
import PIL.ExifTags
import PIL.Image
import PIL.ImageOps
import simplejpeg

from xmodal.core.config import setting
from xmodal.core.errors import UserError
from xmodal.core.untrusted import picture_formats
from xmodal.data.pixels.augment import AugmentConfig, draw, erase
from xmodal.data.pixels.resample import BICUBIC, BILINEAR, EVALUATION_CROPS

# Besides the results, one picture per worker is in memory at a time.
_WORKERS = concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1, "pictures")
_LONGEST = 1333 / 800  # Longer by shorter side of a picture in patches, as in detectors.


@dataclasses.dataclass(frozen=True)
class ImageConfig:
    """How images become model inputs.

    Attributes:
      size: side of the square model input in pixels; 0 for precomputed features.
      augment: training augmentation; None to train on the evaluation crop.
      eval_crop: fraction of a side that the evaluation crop keeps.
      eval_transform: "cxc" squeezes the center, that fraction of each side, to a square with
        antialiased bilinear interpolation, as the authors of CxC do; "simclr" takes a central
        square, that fraction of the shorter side, and resizes it bicubically, as SimCLR does;
        "torchvision" resizes the shorter side to `size` / `eval_crop` and takes the central
        square (0.875: `Resize(256)`, `CenterCrop(224)`); "clip" does so with a bicubic filter
        (openai/CLIP: 1.0). "squash", "squash_bilinear" and "big_vision" resize the center like
        "cxc", but as Pillow does, bicubically (the SigLIP of open_clip and transformers: 1.0) or
        bilinearly (open_clip, where its files ask for it), or bilinearly without antialiasing,
        rounded down (google-research/big_vision, which trained SigLIP: 1.0).
      patch: side of the patches of pictures of any shape, see `cut_into_patches`, whose
        shorter side has `size` pixels; 0 for squares.
      max_regions: R, rows of a padded image if the number of stored regions varies; images
        with more regions keep the first R.
      tags: whether the names of objects in the column `tags` are read.
    """

    size: int = setting(0, at_least=0)
    augment: AugmentConfig | None = None
    eval_crop: float = setting(0.875, above=0, at_most=1)
    eval_transform: str = setting("cxc", one_of=tuple(EVALUATION_CROPS))
    patch: int = setting(0, at_least=0)
    max_regions: int = setting(0, at_least=0)
    tags: bool = False

    def __post_init__(self) -> None:
        if self.patch and (self.augment or self.size % self.patch or not self.size):
            raise UserError(
                f"config.data.image.patch={self.patch} needs a size that is a multiple of it, and "
                f"whole pictures: it is {self.size}, and augment must be None."
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a picture as the model reads it, of dtype uint8."""
        if self.patch:
            return 1 + most_patches(self.size, self.patch), 3 * self.patch**2
        return self.size, self.size, 3


def set_threads(count: int) -> None:
    """Sets the number of threads that decode pictures; the default is one per core."""
    global _WORKERS
    _WORKERS = concurrent.futures.ThreadPoolExecutor(count, "pictures")


def prepare_images(
    images: Sequence[bytes], config: ImageConfig, seeds: np.ndarray | None = None
) -> np.ndarray:
    """Decodes and crops a batch of images in threads.

    Args:
      images: N encoded pictures.
      config: size, augmentation and evaluation crop.
      seeds: int64 [N, 2] of the training augmentation; None for the evaluation crop.

    Returns:
      uint8 [N, size, size, 3], or `config.shape` of patches.

    Raises:
      ValueError: an image is damaged or of an unknown format.
    """
    results = np.empty([len(images), *config.shape], np.uint8)

    def fill(result: np.ndarray, encoded: bytes, seed: np.ndarray | None) -> None:
        picture = decode_image(encoded)
        if seed is None or config.augment is None:
            result[:] = evaluation_view(picture, config)
        else:
            result[:] = augmented_crop(picture, seed, config.size, config.augment)

    rows: Sequence[np.ndarray | None] = [None] * len(images) if seeds is None else list(seeds)
    list(_WORKERS.map(fill, results, images, rows))  # Raises the error of a worker.
    return results


def evaluation_view(picture: np.ndarray, config: ImageConfig) -> np.ndarray:
    """Returns a picture uint8 [H, W, 3] as the model reads it in evaluation."""
    if config.patch:
        return cut_into_patches(picture, config.size, config.patch)
    return EVALUATION_CROPS[config.eval_transform](picture, config.size, config.eval_crop)


def decode_image(encoded: bytes) -> np.ndarray:
    """Returns the pixels of an encoded picture, uint8 [H, W, 3].

    Reads the formats of `xmodal.core.untrusted.picture_formats`; for an animation, the first frame.
    JPEG and PNG have the pixels of `tf.io.decode_image`, except JPEGs with a recoverable error,
    which PIL decodes, and 16-bit gray, see `picture_formats.to_eight_bits`. The EXIF orientation is
    ignored, as in published code.

    Raises:
      ValueError: the picture is damaged, of an unknown format, or has more than 2^26 pixels.
    """
    try:
        height, width, space, _ = simplejpeg.decode_jpeg_header(encoded)
        picture_formats.check_pixels(width, height)
        # TensorFlow's default DCT; with the other one, pixels are off by 1 on average.
        if space not in ("CMYK", "YCCK"):
            return simplejpeg.decode_jpeg(encoded, fastdct=True)
        inks = simplejpeg.decode_jpeg(encoded, "CMYK", fastdct=True).astype(np.int32)
        return (inks[..., :3] * inks[..., 3:] // 255).astype(np.uint8)  # Adobe stores 255 - ink.
    except ValueError as error:  # Another format, or a JPEG that PIL may recover.
        if "Premature end" in str(error):
            raise ValueError(f"the JPEG image is cut short: {error}") from error
    try:
        with picture_formats.open_picture(encoded) as picture:
            return np.asarray(picture_formats.to_eight_bits(picture).convert("RGB"))
    except Exception as error:  # Damaged files make Pillow raise all kinds of errors.
        unknown = isinstance(error, PIL.UnidentifiedImageError)  # It names an object of ours.
        reason = "its format is unknown" if unknown else error
        raise ValueError(f"no image, or a damaged one: {reason}") from error


def decode_upright(encoded: bytes) -> np.ndarray:
    """Returns the pixels of a picture as prepared datasets store them, uint8 [H, W, 3].

    They are those of `decode_image`, but with transparent pixels on white, and rotated according to
    the EXIF orientation.

    Raises:
      ValueError: the picture is damaged or of an unknown format.
    """
    pixels = decode_image(encoded)
    # An intact picture may have a damaged tag.
    with contextlib.suppress(Exception), picture_formats.open_picture(encoded) as header:
        if header.has_transparency_data:
            pixels = np.asarray(picture_formats.to_rgb(header))
        orientation = header.getexif().get(PIL.ExifTags.Base.Orientation, 1)
        if orientation != 1 and header.format != "TIFF":  # Pillow itself rotates a TIFF.
            picture = PIL.Image.fromarray(pixels)
            picture.info = header.info
            return np.asarray(PIL.ImageOps.exif_transpose(picture))
    return pixels


def stand_upright(picture: PIL.Image.Image) -> PIL.Image.Image:
    """Returns a picture rotated according to its EXIF orientation."""
    try:
        return PIL.ImageOps.exif_transpose(picture)
    except Exception:  # See above; a damaged picture raises an error where it is used.
        return picture


def augmented_crop(
    picture: np.ndarray, seed: np.ndarray, size: int, config: AugmentConfig
) -> np.ndarray:
    """Randomly crops a picture, resizes, mirrors, shifts its color and erases a part.

    Args:
      picture: uint8 [H, W, 3].
      seed: int64 [2]; the same seed gives the same result.
      size: side of the result.
      config: ranges and switches.

    Returns:
      uint8 [size, size, 3].
    """
    height, width, _ = picture.shape
    (top, left, rows, columns), mirrored, shift = draw(seed, height, width, config)
    crop = PIL.Image.fromarray(picture[top : top + rows, left : left + columns])
    crop = crop.resize((size, size), BILINEAR if config.filter == "bilinear" else BICUBIC)
    if mirrored:
        crop = crop.transpose(PIL.Image.Transpose.FLIP_LEFT_RIGHT)
    if shift.any():
        levels = np.rint(np.arange(256) + shift[:, None]).clip(0, 255)
        crop = crop.point(levels.astype(int).ravel().tolist())
    result = np.array(crop)
    if config.erase:
        erase(result, seed, config.erase)
    return result


def most_patches(size: int, patch: int) -> int:
    """Returns the largest number of patches of a picture whose shorter side has `size` pixels."""
    return size // patch * (int(_LONGEST * size) // patch)


def cut_into_patches(picture: np.ndarray, size: int, patch: int) -> np.ndarray:
    """Returns the patches of a resized picture of any shape, in rows of one length, as ViLT does.

    The shorter side gets `size` pixels, or fewer if the longer one would have more than 1333 / 800
    as many; both are then cut to multiples of `patch`. The filter is PIL's bicubic one.

    Args:
      picture: uint8 [H, W, 3].
      size: wanted pixels of the shorter side, a multiple of `patch`.
      patch: side of a patch in pixels.

    Returns:
      uint8 [1 + P, 3 patch^2], where P is `most_patches`. The first row, the place of the class
      token, begins with the numbers of rows and of columns of the grid; its patches follow row by
      row, each as [patch, patch, 3], and then zeros.
    """
    height, width = resized_shape(picture.shape[0], picture.shape[1], size, patch)
    image = PIL.Image.fromarray(picture).resize((width, height), BICUBIC)
    rows, columns = height // patch, width // patch
    grid = np.asarray(image).reshape(rows, patch, columns, patch, 3).swapaxes(1, 2)
    found = np.zeros((1 + most_patches(size, patch), 3 * patch**2), np.uint8)
    found[0, :2] = rows, columns
    found[1 : 1 + rows * columns] = grid.reshape(rows * columns, -1)
    return found


def resized_shape(height: int, width: int, size: int, patch: int) -> tuple[int, int]:
    """Returns the height and the width in pixels of a resized picture, each at least a patch."""
    longest = int(_LONGEST * size)
    scale = size / min(height, width)
    sides = [size, scale * width] if height < width else [scale * height, size]
    if max(sides) > longest:
        sides = [side * (longest / max(sides)) for side in sides]
    whole = [int(side + 0.5) // patch * patch for side in sides]
    return max(patch, whole[0]), max(patch, whole[1])
