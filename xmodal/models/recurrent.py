"""Recurrent layers over the real tokens of a text."""

from collections.abc import Callable, Mapping

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

CELLS: Mapping[str, Callable[..., nn.RNNCellBase]] = {
    "gru": nn.GRUCell,
    "lstm": nn.OptimizedLSTMCell,
}


def mean_directions(outputs: jax.Array) -> jax.Array:
    """Returns the mean [..., W] of the two directions of outputs [..., 2 * W]."""
    forward, backward = jnp.split(outputs, 2, axis=-1)
    return (forward + backward) / 2


class Recurrent(nn.Module):
    """Recurrent layers on top of each other.

    Parameters: one cell per layer and direction, `layer1_forward`, `layer1_backward`, ..., with
    the names of Flax: matrices `ir, iz, in` (input) and `hr, hz, hn` (hidden) of a GRU, `ii, if,
    ig, io` and `hi, hf, hg, ho` of an LSTM. torch stacks the same gates in the order r, z, n and
    i, f, g, o, transposed; its two biases of a gate add up, but for n of the GRU, where `in` has
    the input bias and `hn` the hidden one.

    Attributes:
      cell: key of `CELLS`.
      width: of the state of one direction.
      layers: number of layers.
      bidirectional: read the text in both directions; the next layer reads the joined outputs.
      dropout: between two layers.
      dtype: compute dtype.
    """

    cell: str
    width: int
    layers: int
    bidirectional: bool
    dropout: float
    dtype: DTypeLike

    @nn.compact
    def __call__(
        self, x: jax.Array, lengths: jax.Array, drops: bool
    ) -> tuple[jax.Array, jax.Array]:
        """Runs over the first `lengths` tokens of every text.

        Args:
          x: [N, T, W].
          lengths: int [N], at least 1.
          drops: whether to drop at random.

        Returns:
          The last layer's outputs [N, T, D] and its final states [N, D], where D is the width of
          one direction or of both, joined. The backward direction ends at the first token.
          Outputs beyond a text's length have no meaning.
        """
        directions = ("forward", "backward") if self.bidirectional else ("forward",)
        for number in range(1, self.layers + 1):
            if number > 1:
                x = nn.Dropout(self.dropout, deterministic=not drops)(x)
            outputs, states = [], []
            for direction in directions:
                cell = CELLS[self.cell](
                    self.width, dtype=self.dtype, name=f"layer{number}_{direction}"
                )
                run = nn.RNN(cell, return_carry=True)
                is_backward = direction == "backward"
                carry, output = run(
                    x, seq_lengths=lengths, reverse=is_backward, keep_order=is_backward
                )
                outputs.append(output)
                states.append(carry[1] if isinstance(carry, tuple) else carry)
            x, state = (jnp.concatenate(parts, axis=-1) for parts in (outputs, states))
        return x, state
