"""Normalization, activation and squeeze-excite gate, with a gradient in one pass over the map.

The gate of a channel depends on the mean of its activations. Plain autodiff reads the map once for
the gradient of the gate, and once more, when that has become the gradient of the mean, for the sums
over the map that normalization needs. Both gradients are multiples of sums that do not depend on
the gate, and are taken here per item and channel: those of the mean in the forward pass, those of
the gated map in the pass that also writes its gradient.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

Activation = Callable[[jax.Array], jax.Array]
# Center, factor and shift: `(x - center) * factor + shift` is activated. They and the gates are per
# item, [N, 1, 1, ..., C], for a map [N, H, W, ..., C].
Affine = tuple[jax.Array, jax.Array, jax.Array]
_sum = partial(jnp.sum, axis=(1, 2), keepdims=True)
_mean = partial(jnp.mean, axis=(1, 2), keepdims=True)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def mean(activation: Activation, x: jax.Array, affine: Affine) -> jax.Array:
    """Returns the mean of the activations over H and W, in float32."""
    return _mean(_activate(activation, x, affine)[0])


def _mean_forward(
    activation: Activation, x: jax.Array, affine: Affine
) -> tuple[jax.Array, tuple[Any, ...]]:
    activated, slope = _activate(activation, x, affine)
    return _mean(activated), (x, affine, _mean(slope * _center(x, affine)), _mean(slope))


def _mean_backward(
    activation: Activation, residuals: tuple[Any, ...], dmean: jax.Array
) -> tuple[jax.Array, Affine]:
    x, affine, by_factor, by_shift = residuals
    _, slope = _activate(activation, x, affine)
    _, factor, _ = affine
    dx = slope * (dmean * factor / (x.shape[1] * x.shape[2]))
    return dx.astype(x.dtype), _affine_gradient(factor, dmean * by_factor, dmean * by_shift)


mean.defvjp(_mean_forward, _mean_backward)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def gate(activation: Activation, x: jax.Array, affine: Affine, gates: jax.Array) -> jax.Array:
    """Returns the activations times the gates, in the dtype of x."""
    return activation(_normalize(x, affine)) * gates


def _gate_forward(
    activation: Activation, x: jax.Array, affine: Affine, gates: jax.Array
) -> tuple[jax.Array, tuple[Any, ...]]:
    return gate(activation, x, affine, gates), (x, affine, gates)


def _gate_backward(
    activation: Activation, residuals: tuple[Any, ...], dy: jax.Array
) -> tuple[jax.Array, Affine, jax.Array]:
    x, affine, gates = residuals
    activated, slope = _activate(activation, x, affine)
    dy, weights = dy.astype(jnp.float32), gates.astype(jnp.float32)
    slope *= dy
    _, factor, _ = affine
    by_factor, by_shift = weights * _sum(slope * _center(x, affine)), weights * _sum(slope)
    return (
        (slope * (weights * factor)).astype(x.dtype),
        _affine_gradient(factor, by_factor, by_shift),
        _sum(dy * activated).astype(gates.dtype),
    )


gate.defvjp(_gate_forward, _gate_backward)


def _affine_gradient(factor: jax.Array, by_factor: jax.Array, by_shift: jax.Array) -> Affine:
    return -factor * by_shift, by_factor, by_shift


def _center(x: jax.Array, affine: Affine) -> jax.Array:
    return x.astype(jnp.float32) - affine[0]


def _normalize(x: jax.Array, affine: Affine) -> jax.Array:
    _, factor, shift = affine
    return (_center(x, affine) * factor + shift).astype(x.dtype)


def _activate(activation: Activation, x: jax.Array, affine: Affine) -> tuple[jax.Array, jax.Array]:
    """Returns the activations and their derivatives by their inputs, in float32."""
    normalized = _normalize(x, affine).astype(jnp.float32)
    return jax.jvp(activation, (normalized,), (jnp.ones_like(normalized),))
