"""The linear layer that ends a tower."""

import flax.linen as nn
import jax
import jax.numpy as jnp


def project(vector: jax.Array, width: int | None) -> jax.Array:
    """Affine map [N, D] -> float32 [N, width], or `vector` itself in float32 when width is None.

    Called inside a compact module, which gets the parameters as `projection`.
    """
    vector = vector.astype(jnp.float32)
    if width is None:
        return vector
    return nn.Dense(width, kernel_init=nn.initializers.xavier_uniform(), name="projection")(vector)
