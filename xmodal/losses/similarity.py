"""Similarities of two embeddings, by name: training and ranking share this table.

Every similarity here is an inner product of prepared vectors, so a loss or an evaluation prepares
each embedding once and then only multiplies matrices.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from xmodal.options import lookup


def _unchanged(vectors: jax.Array) -> jax.Array:
    return vectors


def _unit_length(vectors: jax.Array) -> jax.Array:
    # The epsilon stands under the root: the gradient at a zero vector is then zero, not NaN.
    squares = jnp.sum(jnp.square(vectors), axis=-1, keepdims=True)
    return vectors * jax.lax.rsqrt(squares + 1e-12)


SIMILARITIES: dict[str, Callable[[jax.Array], jax.Array]] = {
    "dot": _unchanged,
    "cosine": _unit_length,
}


def normalise(name: str, vectors: jax.Array) -> jax.Array:
    """Prepares embeddings so that the similarity called `name` is their inner product.

    Args:
      name: a key of `SIMILARITIES`; the CxC dual encoders use `dot` (raw, no temperature).
      vectors: [..., D] embeddings of any float dtype.

    Returns:
      [..., D] float32.

    Raises:
      UserError: the name is not in the table.
    """
    prepare = lookup("config.model.similarity", name, SIMILARITIES)
    return prepare(jnp.asarray(vectors, jnp.float32))
