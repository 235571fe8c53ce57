"""Functions of vectors: precision, common offset, unit length, products, and distances."""

import contextlib
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

Squared = dict[str, jax.Array]
"""`vectors` [..., D] and their squared lengths, `squares` [...]."""

SINGLE, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
# Vectors of each side whose common part is estimated.
_SAMPLE = 1024
# A common part of up to this many spreads costs a digit at most and stays.
_NEGLIGIBLE = 4.0


@contextlib.contextmanager
def in_precision(dtype: np.dtype) -> Iterator[None]:
    """A context in which JAX computes in a type; without it, all numbers become float32."""
    if dtype != DOUBLE:
        yield
        return
    # Not every accelerator has float64.
    with jax.enable_x64(True), jax.default_device(jax.local_devices(backend="cpu")[0]):
        yield


def find_offset(*sides: np.ndarray) -> np.ndarray | None:
    """Returns the common part of vectors, float64 [D], which hides their distances in float32.

    It is a multiple of a power of two near their spread, so that equal distances stay equal; None
    if it is small. Single vectors far from the others do not move it.

    Args:
      sides: floats [N, D] or [N, K, D].
    """
    rows = [side[:: -(-len(side) // _SAMPLE)] for side in sides if len(side)]
    sample = np.concatenate([np.asarray(x, np.float64).reshape(-1, x.shape[-1]) for x in rows])
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


@jax.custom_vjp
def unit_length(vectors: jax.Array) -> jax.Array:
    """Returns vectors [..., D] divided by their length, from about 1e-37 to 1e38.

    A zero vector stays zero and has a zero gradient; a NaN or an infinity gives NaN. Numbers below
    the smallest normal one (1.2e-38) count as zero if the processor flushes them.
    """
    return _divide_by_length(vectors)[0]


def _divide_by_length(vectors: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    # The squares of very long and very short vectors are out of float32's range. A power of two
    # scales them back without changing the mantissa.
    largest = jnp.max(jnp.abs(vectors), axis=-1, keepdims=True)
    _, exponent = jnp.frexp(largest)
    scale = jnp.ldexp(jnp.ones_like(largest), -jnp.clip(exponent, -126, 126))
    scale = jnp.where(largest == 0, 0.0, scale)
    vectors = vectors * scale
    squares = jnp.sum(jnp.square(vectors), axis=-1, keepdims=True)
    inverse = jax.lax.rsqrt(jnp.maximum(squares, 1e-12))
    unit = vectors * inverse
    return unit, (unit, inverse * scale)


def _gradient_of_length(
    saved: tuple[jax.Array, jax.Array], gradient: jax.Array
) -> tuple[jax.Array]:
    # In terms of the result, so that no other large array is kept: half the memory of autodiff.
    unit, inverse = saved
    along = jnp.sum(unit * gradient, axis=-1, keepdims=True)
    return (inverse * (gradient - unit * along),)


unit_length.defvjp(_divide_by_length, _gradient_of_length)


def products(left: jax.Array, right: jax.Array) -> jax.Array:
    """Returns the inner products [B, M] of [B, D] and [M, D].

    Uses float32 throughout, even if the default product is bfloat16.
    """
    return jax.lax.dot_general(
        left, right, (((1,), (1,)), ((), ())), precision=jax.lax.Precision.HIGHEST
    )


def square_distances(left: Squared, right: Squared) -> jax.Array:
    """Returns |x - y|^2 [B, M] of vectors [B, D] and [M, D] with their squared lengths.

    Computed as |x|^2 + |y|^2 - 2 x y, so its error is about 1e-7 of the squared lengths.
    """
    lengths = left["squares"][:, None] + right["squares"][None]
    return jnp.maximum(lengths - 2.0 * products(left["vectors"], right["vectors"]), 0.0)


def with_squares(vectors: jax.Array) -> Squared:
    """Returns vectors [..., D] and their squared lengths."""
    return {"vectors": vectors, "squares": jnp.sum(jnp.square(vectors), axis=-1)}


def square_root(squares: jax.Array) -> jax.Array:
    """Returns the square roots, with gradient 0 at 0, as torch's norm."""
    is_zero = squares == 0
    return jnp.where(is_zero, 0.0, jnp.sqrt(jnp.where(is_zero, 1.0, squares)))
