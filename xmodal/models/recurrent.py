"""Recurrent layers over the real tokens of a text."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax.linen.recurrent import DenseParams
from jax.typing import DTypeLike

from xmodal.models.features import Features, take_last
from xmodal.models.initializers import uniform

State = tuple[jax.Array, ...]
"""The state of a cell: arrays [N, W], of which a matrix multiplies the first at every step."""


def _gru(state: State, x: jax.Array, hidden: jax.Array) -> State:
    """Gated recurrent unit; gates r, z, n (Cho et al., 2014, in the form of cuDNN)."""
    (h,) = state
    x_r, x_z, x_n = jnp.split(x, 3, axis=-1)
    h_r, h_z, h_n = jnp.split(hidden, 3, axis=-1)
    r, z = jax.nn.sigmoid(x_r + h_r), jax.nn.sigmoid(x_z + h_z)
    n = jnp.tanh(x_n + r * h_n)
    return ((1 - z) * n + z * h,)


def _lstm(state: State, x: jax.Array, hidden: jax.Array) -> State:
    """Long short-term memory; gates i, f, g, o (Hochreiter and Schmidhuber, 1997)."""
    _, c = state
    i, f, g, o = jnp.split(x + hidden, 4, axis=-1)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(c), c


class RecurrentCell(NamedTuple):
    """A recurrent cell.

    Attributes:
      step: (state, gates of the input [N, G], gates of the state [N, G]) -> the next state.
      gates: names of the gates, in order.
      hidden_biases: names of gates whose matrix of the state has a bias even if a gate has one.
      states: number of arrays of the state.
    """

    step: Callable[[State, jax.Array, jax.Array], State]
    gates: str
    hidden_biases: str
    states: int


CELLS: Mapping[str, RecurrentCell] = {
    # The reset gate is between the two biases of n.
    "gru": RecurrentCell(_gru, "rzn", hidden_biases="n", states=1),
    "lstm": RecurrentCell(_lstm, "ifgo", hidden_biases="", states=2),
}
BIASES = (2, 1)
"""The numbers of biases that a gate may have."""


class RecurrentOutputs(NamedTuple):
    """What recurrent layers return, float32; arrays that nothing reads are not computed.

    Attributes:
      tokens: [N, T, D]; those beyond a text's length have no meaning.
      state: the final states [N, D]; the backward direction ends at the first token.
      last: the output at the last token [N, D], where the backward direction has read only this
        token. Without the other tokens, that direction takes a single step.
    """

    tokens: jax.Array
    state: jax.Array
    last: jax.Array


def mean_directions(outputs: jax.Array) -> jax.Array:
    """Returns the mean [..., W] of the two directions of outputs [..., 2 * W]."""
    forward, backward = jnp.split(outputs, 2, axis=-1)
    return (forward + backward) / 2


class Direction(nn.Module):
    """One recurrent layer in one direction.

    Parameters: matrices and biases of the gates; see `Recurrent`.

    Attributes:
      cell: key of `CELLS`.
      width: width of the state.
      reverse: whether to begin at the last token.
      dtype: compute dtype.
      biases: see `Recurrent`.
    """

    cell: str
    width: int
    reverse: bool = False
    dtype: DTypeLike = jnp.float32
    biases: int = 2

    @nn.compact
    def __call__(
        self, x: jax.Array, lengths: jax.Array, start: jax.Array | None = None
    ) -> RecurrentOutputs:
        """Runs over the first `lengths` tokens [N] of texts [N, T, W], from a state [N, D] or 0."""
        cell = CELLS[self.cell]
        kernel, bias = self._matrix("i", x.shape[-1], cell.gates)
        with_bias = cell.gates if self.biases == 2 else cell.hidden_biases
        hidden_kernel, hidden_bias = self._matrix("h", self.width, with_bias)
        zero = jnp.zeros((x.shape[0], self.width), jnp.float32)
        first = (zero if start is None else start, *[zero] * (cell.states - 1))

        def step(state: State, inputs: tuple[jax.Array, jax.Array]) -> tuple[State, jax.Array]:
            x, real = inputs
            hidden = state[0].astype(self.dtype) @ hidden_kernel + hidden_bias
            moved = cell.step(state, x, hidden)
            state = jax.tree.map(partial(jnp.where, real[:, None]), moved, state)
            return state, state[0]

        def run(x: jax.Array, real: jax.Array) -> jax.Array:
            """Inputs [T, N, W] and bool [T, N] -> the outputs [T, N, D]."""
            gates = x.astype(self.dtype) @ kernel + bias
            return jax.lax.scan(step, first, (gates, real), reverse=self.reverse)[1]

        real = jnp.arange(x.shape[1]) < lengths[:, None]
        x = Features(x, real).real_tokens()
        outputs = run(jnp.swapaxes(x, 0, 1), real.T)
        tokens = jnp.swapaxes(outputs, 0, 1)
        if not self.reverse:
            return RecurrentOutputs(tokens, outputs[-1], outputs[-1])
        ends = take_last(x, lengths)[None]
        return RecurrentOutputs(tokens, outputs[0], run(ends, jnp.ones(ends.shape[:2], bool))[0])

    def _matrix(self, source: str, rows: int, with_bias: str) -> tuple[jax.Array, jax.Array]:
        """All gates' matrices, concatenated to [rows, G], and their biases [G]."""
        init = nn.initializers.orthogonal() if source == "h" else nn.initializers.lecun_normal()
        # Two biases start as in torch, one starts as in TensorFlow.
        bias_init = uniform(self.width**-0.5) if self.biases == 2 else nn.initializers.zeros
        kernels, biases = [], []
        for gate in CELLS[self.cell].gates:
            dense = DenseParams(
                self.width, gate in with_bias, kernel_init=init, bias_init=bias_init,
                name=f"{source}{gate}",
            )  # fmt: skip
            kernel, bias = dense(jnp.empty((0, rows)))
            kernels.append(kernel)
            biases.append(jnp.zeros(self.width) if bias is None else bias)
        matrix, bias = jnp.concatenate(kernels, axis=1), jnp.concatenate(biases)
        return matrix.astype(self.dtype), bias.astype(self.dtype)


class Recurrent(nn.Module):
    """Recurrent layers on top of each other.

    Parameters: one cell per layer and direction, `layer1_forward`, `layer1_backward`, ..., with
    the names of Flax: matrices `ir, iz, in` (input) and `hr, hz, hn` (hidden) of a GRU, `ii, if,
    ig, io` and `hi, hf, hg, ho` of an LSTM. torch stacks the same gates in the order r, z, n and
    i, f, g, o, transposed, and likewise the biases.

    Attributes:
      cell: key of `CELLS`.
      width: width of the state in one direction.
      layers: number of layers.
      bidirectional: read the text in both directions; the next layer reads the joined outputs.
      dropout: dropout rate between two layers.
      dtype: compute dtype.
      biases: one of `BIASES`. With 2, as in torch, every gate has one of the input and one of the
        state. Only their sum matters, but Adam moves both, and both count in the gradient's norm.
        With 1, as in TensorFlow, only the GRU's n has both.
    """

    cell: str
    width: int
    layers: int
    bidirectional: bool
    dropout: float
    dtype: DTypeLike
    biases: int = 2

    @nn.compact
    def __call__(self, x: jax.Array, lengths: jax.Array, drops: bool) -> RecurrentOutputs:
        """Runs over the first `lengths` tokens of every text.

        Args:
          x: [N, T, W].
          lengths: int [N], at least 1.
          drops: whether to apply dropout.

        Returns:
          Those of the last layer, where D is the width of one direction or of both, joined.
        """
        directions = ("forward", "backward") if self.bidirectional else ("forward",)
        for number in range(1, self.layers + 1):
            if number > 1:
                x = nn.Dropout(self.dropout, deterministic=not drops)(x)
            found = []
            for direction in directions:
                layer = Direction(
                    self.cell, self.width, direction == "backward", self.dtype, self.biases,
                    name=f"layer{number}_{direction}",
                )  # fmt: skip
                found.append(layer(x, lengths))
            joined = (jnp.concatenate(each, axis=-1) for each in zip(*found, strict=True))
            outputs = RecurrentOutputs(*joined)
            x = outputs.tokens
        return outputs
