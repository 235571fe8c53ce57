"""Learned positions for another number of tokens than that of the published weights.

mlfoundations/open_clip, google-research/big_vision and salesforce/BLIP resample them by different
rules.
"""

import math
from collections.abc import Callable, Mapping

import jax
import numpy as np

Resample = Callable[[np.ndarray, tuple[int, ...]], np.ndarray]


def _bicubic(grid: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return np.asarray(jax.image.resize(grid, shape, "cubic", antialias=True))


def _linear(grid: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return np.asarray(jax.image.resize(grid, shape, "linear", antialias=False))


def _corners(grid: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    import scipy.ndimage  # Slow to import, and few models need it.

    factors = [new / old for new, old in zip(shape, grid.shape, strict=True)]
    return scipy.ndimage.zoom(grid, factors, order=1)


def _torch_bicubic(grid: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    rows, columns = (
        _cubic_weights(*sizes) for sizes in zip(grid.shape[:2], shape[:2], strict=True)
    )
    return np.einsum("ir,jc,rcw->ijw", rows, columns, grid).astype(grid.dtype)


def _cubic_weights(old: int, new: int) -> np.ndarray:
    """The weights [new, old] of Keys's cubic kernel with a = -0.75; borders are repeated."""
    place = (np.arange(new) + 0.5) * old / new - 0.5
    weights = np.zeros((new, old))
    for step in range(-1, 3):
        at = np.floor(place) + step
        x = np.abs(place - at)
        near = 1.25 * x**3 - 2.25 * x**2 + 1
        far = -0.75 * (x**3 - 5 * x**2 + 8 * x - 4)
        index = np.clip(at, 0, old - 1).astype(int)
        weights[np.arange(new), index] += np.where(x <= 1, near, far)
    return weights


POSITION_RESIZES: Mapping[str, Resample] = {
    "bicubic": _bicubic,
    "corners": _corners,
    "linear": _linear,
    "torch_bicubic": _torch_bicubic,
}
"""(array, new shape) -> array, by name.

"bicubic", with antialiasing, is open_clip's rule for images, "linear", without it, its rule for
texts; "corners", linear with the first and the last position kept, is big_vision's for both;
"torch_bicubic", torch's cubic kernel without antialiasing, is BLIP's for images.
"""


def resize_text_positions(positions: np.ndarray, count: int, rule: str) -> np.ndarray:
    """Returns positions float32 [T, W] for `count` tokens of a text."""
    shape = (count, positions.shape[1])
    return POSITION_RESIZES[rule](np.asarray(positions, np.float32), shape)


def resize_grid_positions(
    positions: np.ndarray, count: int, rule: str, class_tokens: int
) -> np.ndarray | None:
    """Returns positions for another number of patches; None if either is no square grid.

    Args:
      positions: float32 [T, W]: first those of class tokens, then those of patches, row by row.
      count: T of the result.
      rule: a key of `POSITION_RESIZES`.
      class_tokens: number of class tokens, whose positions are kept.
    """
    kept, patches = np.split(np.asarray(positions, np.float32), [class_tokens])
    old, new = (math.isqrt(max(number, 0)) for number in (len(patches), count - class_tokens))
    if not old or not new or old**2 != len(patches) or new**2 != count - class_tokens:
        return None
    width = positions.shape[1]
    grid = POSITION_RESIZES[rule](patches.reshape(old, old, width), (new, new, width))
    return np.concatenate([kept, grid.reshape(-1, width)])
