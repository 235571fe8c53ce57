"""Normalization of vectors."""

import jax
import jax.numpy as jnp


def l2_normalize(x: jax.Array, axis: int = -1) -> jax.Array:
    """Returns x divided by its L2 norms along an axis; a norm of 0 has no effect.

    Args:
      x: [..., D].
      axis: axis of the vectors; by default the last one.
    """
    squares = jnp.sum(jnp.square(x), axis=axis, keepdims=True)
    return x * jax.lax.rsqrt(jnp.maximum(squares, 1e-12))
