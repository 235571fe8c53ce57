"""Initializers of parameters, by name."""

from collections.abc import Callable, Mapping
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

LINEAR: Mapping[str, Callable] = {
    "xavier": nn.initializers.xavier_uniform(),
    "lecun": nn.initializers.lecun_normal(),
    "he": nn.initializers.he_normal(),
    # U(-1 / sqrt(inputs), 1 / sqrt(inputs)).
    "torch": nn.initializers.variance_scaling(1 / 3, "fan_in", "uniform"),
}
"""Initializers for the kernels of linear layers."""
CONV = nn.initializers.variance_scaling(2.0, "fan_out", "normal")
"""Initializer for the kernels of convolutions that a ReLU follows (He et al. 2015)."""
WORDS = ("normal", "uniform")
"""Initializers for tables of word vectors."""


def initialize_words(name: str, scale: float | None, width: int) -> Callable:
    """Returns the initializer of a table of word vectors.

    Args:
      name: one of `WORDS`.
      scale: standard deviation, or half the range; None for 1 / sqrt(width).
      width: width of a word vector.
    """
    scale = width**-0.5 if scale is None else scale
    return nn.initializers.normal(scale) if name == "normal" else uniform(scale)


def uniform(bound: float) -> Callable:
    """Returns the initializer that draws from U(-bound, bound)."""

    def init(key: jax.Array, shape: tuple[int, ...], dtype: Any = jnp.float32) -> jax.Array:
        return jax.random.uniform(key, shape, dtype, minval=-bound, maxval=bound)

    return init
