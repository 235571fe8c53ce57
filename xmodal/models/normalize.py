"""Normalization of vectors."""

import jax
import jax.numpy as jnp


def l2_normalize(x: jax.Array) -> jax.Array:
    """Returns x [..., D] divided by its L2 norm; a vector of zeros stays zero, with gradient."""
    squares = jnp.sum(jnp.square(x), axis=-1, keepdims=True)
    return x * jax.lax.rsqrt(jnp.maximum(squares, 1e-12))
