"""Pictures of any shape as rows of patches, without a crop and without squeezing.

Kim et al., "ViLT: Vision-and-Language Transformer Without Convolution or Region Supervision"
(2021), and dandelin/ViLT, vilt/transforms/utils.py.
"""

import numpy as np
import PIL.Image

_LONGEST = 1333 / 800  # Longer by shorter side, as in detectors.


def most_patches(size: int, patch: int) -> int:
    """Returns the largest number of patches of a picture whose shorter side has `size` pixels."""
    return size // patch * (int(_LONGEST * size) // patch)


def cut_into_patches(picture: np.ndarray, size: int, patch: int) -> np.ndarray:
    """Returns the patches of a resized picture, in rows of one length.

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
    image = PIL.Image.fromarray(picture).resize((width, height), PIL.Image.Resampling.BICUBIC)
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
