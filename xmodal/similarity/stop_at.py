"""An upper limit of a learned number."""

import functools

import jax
import jax.numpy as jnp


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def stop_at(value: jax.Array, limit: float) -> jax.Array:
    """Returns the value; from the limit on, a gradient that would raise it further is 0.

    A plain minimum has no gradient beyond the limit, so the value could never come back.
    """
    del limit
    return value


def _forward(value: jax.Array, limit: float) -> tuple[jax.Array, jax.Array]:
    return value, value >= limit


def _backward(limit: float, reached: jax.Array, cotangent: jax.Array) -> tuple[jax.Array]:
    del limit
    # Descent raises the value where the cotangent is negative.
    return (jnp.where(reached & (cotangent < 0), 0.0, cotangent),)


stop_at.defvjp(_forward, _backward)
