"""Normalization, activation and squeeze-excite gate, with a gradient in one pass over the map.

The gate of a channel depends on the mean of its activations. Plain autodiff reads the map once for
the gradient of the gate, and once more, when that has become the gradient of the mean, for the sums
over the map that normalization needs. Both gradients are multiples of sums that do not depend on
the gate, and are taken here per item and channel: those of the mean in the forward pass, those of
the gated map in the pass that also writes its gradient.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp

Activation = Callable[[jax.Array], jax.Array]
# Factor, shift and gates are per item, [N, 1, 1, ..., C], for a map [N, H, W, ..., C].
_sum = partial(jnp.sum, axis=(1, 2), keepdims=True)
_mean = partial(jnp.mean, axis=(1, 2), keepdims=True)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def mean(activation: Activation, x: jax.Array, factor: jax.Array, shift: jax.Array) -> jax.Array:
    """Returns the mean of `activation(x * factor + shift)` over H and W, in float32."""
    return _mean(_activate(activation, x, factor, shift)[0])


def _mean_forward(
    activation: Activation, x: jax.Array, factor: jax.Array, shift: jax.Array
) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    activated, slope = _activate(activation, x, factor, shift)
    by_factor, by_shift = _mean(slope * x.astype(jnp.float32)), _mean(slope)
    return _mean(activated), (x, factor, shift, by_factor, by_shift)


def _mean_backward(
    activation: Activation, residuals: tuple[jax.Array, ...], dmean: jax.Array
) -> tuple[jax.Array, ...]:
    x, factor, shift, by_factor, by_shift = residuals
    _, slope = _activate(activation, x, factor, shift)
    dx = slope * (dmean * factor / (x.shape[1] * x.shape[2]))
    return dx.astype(x.dtype), dmean * by_factor, dmean * by_shift


mean.defvjp(_mean_forward, _mean_backward)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def gate(
    activation: Activation, x: jax.Array, factor: jax.Array, shift: jax.Array, gates: jax.Array
) -> jax.Array:
    """Returns `activation(x * factor + shift) * gates` in the dtype of x."""
    return activation(_normalize(x, factor, shift)) * gates


def _gate_forward(
    activation: Activation, x: jax.Array, factor: jax.Array, shift: jax.Array, gates: jax.Array
) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    return gate(activation, x, factor, shift, gates), (x, factor, shift, gates)


def _gate_backward(
    activation: Activation, residuals: tuple[jax.Array, ...], dy: jax.Array
) -> tuple[jax.Array, ...]:
    x, factor, shift, gates = residuals
    activated, slope = _activate(activation, x, factor, shift)
    dy, weights = dy.astype(jnp.float32), gates.astype(jnp.float32)
    slope *= dy
    return (
        (slope * (weights * factor)).astype(x.dtype),
        weights * _sum(slope * x.astype(jnp.float32)),
        weights * _sum(slope),
        _sum(dy * activated).astype(gates.dtype),
    )


gate.defvjp(_gate_forward, _gate_backward)


def _normalize(x: jax.Array, factor: jax.Array, shift: jax.Array) -> jax.Array:
    return (x.astype(jnp.float32) * factor + shift).astype(x.dtype)


def _activate(
    activation: Activation, x: jax.Array, factor: jax.Array, shift: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Returns the activations and their derivatives by their inputs, in float32."""
    normalized = _normalize(x, factor, shift).astype(jnp.float32)
    return jax.jvp(activation, (normalized,), (jnp.ones_like(normalized),))
