"""Prepares embeddings for comparison: checks their shape, normalizes, squares."""

import jax
import jax.numpy as jnp

from xmodal.core.errors import UserError

Prepared = jax.Array | dict[str, jax.Array]


def one_vector(name: str, vectors: jax.Array) -> jax.Array:
    """Returns embeddings [N, D] as float32, or float64 in that precision.

    Raises:
      UserError: another rank; `name` is the similarity that the message names.
    """
    if jnp.ndim(vectors) != 2:
        raise UserError(
            f"Similarity {name!r} compares one vector per item, [N, D], not embeddings of shape "
            f"{list(jnp.shape(vectors))}; for several vectors per item, [N, K, D], use "
            "'max_cosine' or 'match_probability'."
        )
    return _floats(vectors)


def several_vectors(name: str, vectors: jax.Array) -> jax.Array:
    """Returns embeddings [N, K, D], like `one_vector`; [N, D] is treated as K = 1.

    Raises:
      UserError: another rank; `name` is the similarity that the message names.
    """
    if jnp.ndim(vectors) not in (2, 3):
        raise UserError(
            f"Similarity {name!r} compares embeddings [N, D] or [N, K, D], not of shape "
            f"{list(jnp.shape(vectors))}."
        )
    vectors = _floats(vectors)
    return vectors[:, None] if vectors.ndim == 2 else vectors


def _floats(vectors: jax.typing.ArrayLike) -> jax.Array:
    """Float32, or float64 under `precision.in_precision`."""
    array = jnp.asarray(vectors)
    return array.astype(jnp.promote_types(array.dtype, jnp.float32))


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


def with_squares(vectors: jax.Array) -> dict[str, jax.Array]:
    """Returns vectors [..., D] and their squared lengths [...]."""
    return {"vectors": vectors, "squares": jnp.sum(jnp.square(vectors), axis=-1)}


def square_root(squares: jax.Array) -> jax.Array:
    """Returns the square roots, with gradient 0 at 0, as torch's norm."""
    is_zero = squares == 0
    return jnp.where(is_zero, 0.0, jnp.sqrt(jnp.where(is_zero, 1.0, squares)))
