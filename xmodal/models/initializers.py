"""Initializers of parameters by name, and those of transformer layers as first trained."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

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


BERT = nn.initializers.truncated_normal(0.02)
"""Initializer of every matrix and table of BERT."""


class LayerInit(NamedTuple):
    """Initializers of one layer; all other biases start at 0, and norms as the identity.

    Attributes:
      attention_input: kernels of query, key and value.
      attention_output: kernel of the attention's output.
      mlp_hidden: kernel of the feed-forward layer's first half.
      mlp_output: kernel of its second half.
      mlp_hidden_bias: bias of its first half.
      mlp_output_bias: bias of its second half.
    """

    attention_input: Callable
    attention_output: Callable
    mlp_hidden: Callable
    mlp_output: Callable
    mlp_hidden_bias: Callable = nn.initializers.zeros
    mlp_output_bias: Callable = nn.initializers.zeros


def _clip(width: int, mlp_dim: int, depth: int) -> LayerInit:
    added = nn.initializers.normal((2 * depth * width) ** -0.5)
    return LayerInit(
        nn.initializers.normal(width**-0.5), added, nn.initializers.normal((2 * width) ** -0.5),
        added, uniform(width**-0.5), uniform(mlp_dim**-0.5),
    )  # fmt: skip


def _torch(width: int, mlp_dim: int, depth: int) -> LayerInit:
    del depth
    linear = LINEAR["torch"]
    # Query, key and value are one matrix there, and initialized as one.
    attention_input = uniform((6 / (4 * width)) ** 0.5)
    return LayerInit(
        attention_input, linear, linear, linear, uniform(width**-0.5), uniform(mlp_dim**-0.5)
    )


def _siglip(width: int, mlp_dim: int, depth: int) -> LayerInit:
    del width, mlp_dim, depth
    xavier, tiny = LINEAR["xavier"], nn.initializers.normal(1e-6)
    return LayerInit(xavier, xavier, xavier, xavier, tiny, tiny)


LAYER_INITS: Mapping[str, Callable[[int, int, int], LayerInit]] = {
    "bert": lambda width, mlp_dim, depth: LayerInit(BERT, BERT, BERT, BERT),
    "clip": _clip,
    "siglip": _siglip,
    "torch": _torch,
}
"""(width, width of the feed-forward layer, number of layers) -> initializers.

"bert" is Devlin et al. (2019), "clip" the text layers of openai/CLIP, "siglip" those of
google-research/big_vision, "torch" torch's own of `MultiheadAttention` and `Linear`.
"""
