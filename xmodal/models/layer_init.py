"""Initial values of transformer layers, as in the code that trained them first."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import flax.linen as nn

from xmodal.models.initializers import LINEAR, uniform

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
