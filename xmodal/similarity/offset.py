"""The part that all vectors have in common, which hides their distances in float32.

|x - y|^2 is computed as |x|^2 + |y|^2 - 2 x y, with an error of about 1e-7 of |x|^2: around a large
common value, small distances round to zero. Distances do not depend on it, so it is subtracted.
"""

import jax
import jax.numpy as jnp
import numpy as np

# Vectors of each side whose median is taken.
_SAMPLE = 1024
# An offset of up to this many spreads costs a digit at most and stays, so that vectors keep their
# bits.
_NEGLIGIBLE = 4.0


def find_offset(*sides: np.ndarray) -> np.ndarray | None:
    """Returns the common part of vectors, float64 [D]; None if it is small.

    It is a multiple of a power of two near their spread, so that a float32 minus it is a float32:
    equal distances stay equal. Single vectors far from the others do not move it.

    Args:
      sides: floats [N, D] or [N, K, D].
    """
    rows = [side[:: -(-len(side) // _SAMPLE)] for side in sides if len(side)]
    if not rows:
        return None
    sample = np.concatenate([np.asarray(x, np.float64).reshape(-1, x.shape[-1]) for x in rows])
    with np.errstate(invalid="ignore"):  # Values that are not finite are refused elsewhere.
        middle = np.median(sample, axis=0)
        spreads = np.median(np.abs(sample - middle), axis=0)
    if not np.linalg.norm(middle) > _NEGLIGIBLE * np.linalg.norm(spreads):
        return None
    spread = np.sqrt(np.mean(np.square(spreads)))
    if spread == 0:  # More than half of the vectors are this one.
        return middle
    step = 2.0 ** np.ceil(np.log2(spread))
    return np.round(middle / step) * step


def remove_offset(
    vectors: np.ndarray, offset: np.ndarray | None, dtype: np.typing.DTypeLike = np.float32
) -> np.ndarray:
    """Returns vectors [..., D] minus the result of `find_offset`, as float32 or float64."""
    if offset is None:
        return np.asarray(vectors, dtype)
    return (np.asarray(vectors, np.float64) - offset).astype(dtype)


def centered(left: jax.Array, right: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns vectors [..., D] of two sides minus the mean of both, which has no gradient."""
    left, right = (jnp.asarray(side, jnp.float32) for side in (left, right))
    # Relative to one vector, since a sum of large values is not exact.
    first = left.reshape(-1, left.shape[-1])[0]
    means = [jnp.mean(side - first, axis=tuple(range(side.ndim - 1))) for side in (left, right)]
    center = jax.lax.stop_gradient(first + (means[0] + means[1]) / 2)
    return left - center, right - center
