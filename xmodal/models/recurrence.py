"""Recurrence over time that computes the gradient of its matrix in one product.

With plain autodiff, a scan adds to the gradient of its matrix at every step, and reads and writes
all of it each time. But the gradients of the gates do not depend on that sum: stored for all steps,
they give it in one product at the end, which also needs only one all-reduce if a batch is split
over devices.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

# The state of a cell: arrays [N, W], of which the first one is multiplied at every step.
State = tuple[jax.Array, ...]
# (state, gates of the input [N, G], gates of the state [N, G]) -> the next state.
Cell = Callable[[State, jax.Array, jax.Array], State]


def gru(state: State, x: jax.Array, hidden: jax.Array) -> State:
    """Gated recurrent unit; gates r, z, n (Cho et al., 2014, in the form of cuDNN)."""
    (h,) = state
    x_r, x_z, x_n = jnp.split(x, 3, axis=-1)
    h_r, h_z, h_n = jnp.split(hidden, 3, axis=-1)
    r, z = jax.nn.sigmoid(x_r + h_r), jax.nn.sigmoid(x_z + h_z)
    n = jnp.tanh(x_n + r * h_n)
    return ((1 - z) * n + z * h,)


def lstm(state: State, x: jax.Array, hidden: jax.Array) -> State:
    """Long short-term memory; gates i, f, g, o (Hochreiter and Schmidhuber, 1997)."""
    _, c = state
    i, f, g, o = jnp.split(x + hidden, 4, axis=-1)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(c), c


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def recur(
    cell: Cell,
    reverse: bool,
    start: State,
    x: jax.Array,
    mask: jax.Array,
    kernel: jax.Array,
    bias: jax.Array,
) -> State:
    """Runs a cell over time; its state does not change where the mask is false.

    Args:
      cell: see `Cell`.
      reverse: whether to begin at the last step.
      start: first state; float32 arrays [N, W].
      x: gates of the inputs, [T, N, G], in the compute dtype.
      mask: bool [T, N].
      kernel: maps the first array of the state to its gates, [W, G], in the compute dtype.
      bias: bias of these gates, [G], in the compute dtype.

    Returns:
      The state after every step, arrays [T, N, W].
    """
    return _run(cell, reverse, start, x, mask, kernel, bias)[0]


def _run(
    cell: Cell,
    reverse: bool,
    start: State,
    x: jax.Array,
    mask: jax.Array,
    kernel: jax.Array,
    bias: jax.Array,
) -> tuple[State, tuple[Any, ...]]:
    """Returns the states, and the arrays that the gradient needs."""

    def step(state: State, inputs: tuple[jax.Array, jax.Array]) -> tuple[State, Any]:
        x_now, mask_now = inputs
        hidden = state[0].astype(kernel.dtype) @ kernel + bias
        state = _where(mask_now, cell(state, x_now, hidden), state)
        return state, (state, hidden)

    _, (states, hidden) = jax.lax.scan(step, start, (x, mask), reverse=reverse)
    return states, (start, states, hidden, x, mask, kernel)


def _gradients(
    cell: Cell, reverse: bool, kept: tuple[Any, ...], after: State
) -> tuple[State, jax.Array, None, jax.Array, jax.Array]:
    """Gradients of the arguments of `recur`, from those of the states."""
    start, states, hidden, x, mask, kernel = kept
    before = tuple(
        jnp.concatenate([all_[1:], one[None]] if reverse else [one[None], all_[:-1]])
        for one, all_ in zip(start, states, strict=True)
    )

    def step(gradient: State, inputs: tuple[Any, ...]) -> tuple[State, Any]:
        after_now, state, x_now, hidden_now, mask_now = inputs
        gradient = tuple(map(jnp.add, gradient, after_now))
        zeros = tuple(map(jnp.zeros_like, gradient))
        _, pull = jax.vjp(cell, state, x_now, hidden_now)
        moved, of_x, of_hidden = pull(_where(mask_now, gradient, zeros))
        first = moved[0] + (of_hidden @ kernel.T).astype(moved[0].dtype)
        stood = _where(mask_now, zeros, gradient)
        return tuple(map(jnp.add, (first, *moved[1:]), stood)), (of_x, of_hidden)

    zeros = tuple(map(jnp.zeros_like, start))
    inputs = (after, before, x, hidden, mask)
    of_start, (of_x, of_hidden) = jax.lax.scan(step, zeros, inputs, reverse=not reverse)
    of_kernel = jnp.einsum("tnw,tng->wg", before[0].astype(kernel.dtype), of_hidden)
    of_bias = jnp.sum(of_hidden, axis=(0, 1), dtype=jnp.float32).astype(of_hidden.dtype)
    return of_start, of_x, None, of_kernel, of_bias


def _where(mask: jax.Array, these: State, others: State) -> State:
    pairs = zip(these, others, strict=True)
    return tuple(jnp.where(mask[:, None], this, other) for this, other in pairs)


recur.defvjp(_run, _gradients)
