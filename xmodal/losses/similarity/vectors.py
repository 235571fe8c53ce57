"""Prepares embeddings for comparison: checks their shape, normalizes, squares."""

import jax
import jax.numpy as jnp

from xmodal.config import UserError

Prepared = jax.Array | dict[str, jax.Array]


def one_vector(name: str, vectors: jax.Array) -> jax.Array:
    """Returns embeddings [N, D] as float32.

    Raises:
      UserError: another rank; `name` is the similarity that the message names.
    """
    if jnp.ndim(vectors) != 2:
        raise UserError(
            f"Similarity {name!r} compares one vector per item, [N, D], not embeddings of shape "
            f"{list(jnp.shape(vectors))}; for several vectors per item, [N, K, D], use "
            "'max_cosine' or 'match_probability'."
        )
    return jnp.asarray(vectors, jnp.float32)


def several_vectors(name: str, vectors: jax.Array) -> jax.Array:
    """Returns embeddings [N, K, D] as float32; [N, D] counts as K = 1.

    Raises:
      UserError: another rank; `name` is the similarity that the message names.
    """
    if jnp.ndim(vectors) not in (2, 3):
        raise UserError(
            f"Similarity {name!r} compares embeddings [N, D] or [N, K, D], not of shape "
            f"{list(jnp.shape(vectors))}."
        )
    vectors = jnp.asarray(vectors, jnp.float32)
    return vectors[:, None] if vectors.ndim == 2 else vectors


def unit_length(vectors: jax.Array) -> jax.Array:
    """Returns vectors [..., D] divided by their length, from about 1e-37 to 1e38.

    A zero vector stays zero and has a zero gradient; a NaN or an infinity gives NaN. Numbers below
    the smallest normal one (1.2e-38) count as zero where the processor rounds them so.
    """
    # The squares of very long and very short vectors leave the range of float32. A power of two
    # brings them back without touching a bit of the mantissa. The result does not depend on the
    # scale, so the scale needs no gradient.
    largest = jnp.max(jnp.abs(jax.lax.stop_gradient(vectors)), axis=-1, keepdims=True)
    _, exponent = jnp.frexp(largest)
    scale = jnp.ldexp(jnp.ones_like(largest), -jnp.clip(exponent, -126, 126))
    vectors = vectors * jnp.where(largest == 0, 0.0, scale)
    squares = jnp.sum(jnp.square(vectors), axis=-1, keepdims=True)
    return vectors * jax.lax.rsqrt(squares + 1e-12)


def with_squares(vectors: jax.Array) -> dict[str, jax.Array]:
    """Returns vectors [..., D] and their squared lengths [...]."""
    return {"vectors": vectors, "squares": jnp.sum(jnp.square(vectors), axis=-1)}
