"""Normalization, activation and squeeze-excite gate, with a gradient in one pass over the map.

The gate of a channel depends on the mean of its activations. Plain autodiff reads the map once for
the gradient of the gate, and once more, when that has become the gradient of the mean, for the sums
over the map that normalization needs. Both gradients are multiples of sums that do not depend on
the gate, and are taken here per item and channel: those of the mean in the forward pass, those of
the gated map before its gradient. On TPUs, the gradient of the convolution that reads the gated map
is computed for both, so that it is never written: it has a sixth of the channels of the map. Nor
is the gated map.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

Activation = Callable[[jax.Array], jax.Array]
# Center, factor and shift: `(x - center) * factor + shift` is activated. They and the gates are per
# item, [N, 1, 1, ..., C], for a map [N, H, W, ..., C].
Affine = tuple[jax.Array, jax.Array, jax.Array]
# A linear function of a map and a kernel.
Linear = Callable[[jax.Array, jax.Array], jax.Array]
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


class Gate(NamedTuple):
    """The operations on a map before a convolution.

    Attributes:
      activation: applied to the normalized map.
      affine: see `Affine`.
      gates: factors of the activations, [N, 1, 1, ..., C].
      recompute: whether the gated map and its gradient are computed twice, see `prefers_fusion`.
    """

    activation: Activation
    affine: Affine
    gates: jax.Array
    recompute: bool


def prefers_fusion(platform: str) -> bool:
    """Returns whether elementwise operations and sums cost no traffic next to a convolution.

    On TPUs, they are part of it. A sum over its output that depends on no other sum over it is then
    free, and a gradient of a convolution is rather computed twice than written and read.
    """
    return platform == "tpu"


def convolve(linear: Linear, gate: Gate, x: jax.Array, kernel: jax.Array) -> jax.Array:
    """Returns the linear function of the activations times the gates, in the dtype of x."""
    return _convolve(linear, gate.activation, gate.recompute, x, gate.affine, gate.gates, kernel)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1, 2))
def _convolve(
    linear: Linear,
    activation: Activation,
    recompute: bool,
    x: jax.Array,
    affine: Affine,
    gates: jax.Array,
    kernel: jax.Array,
) -> jax.Array:
    return linear(activation(_normalize(x, affine)) * gates, kernel)


def _convolve_forward(
    linear: Linear, activation: Activation, recompute: bool, *inputs: Any
) -> tuple[jax.Array, tuple[Any, ...]]:
    return _convolve(linear, activation, recompute, *inputs), inputs


def _convolve_backward(
    linear: Linear,
    activation: Activation,
    recompute: bool,
    residuals: tuple[Any, ...],
    dy: jax.Array,
) -> tuple[jax.Array, Affine, jax.Array, jax.Array]:
    x, affine, gates, kernel = residuals
    if recompute:
        # Behind barriers, as equal operations would be merged, and the gated map stored.
        gates = jax.lax.optimization_barrier(gates)
    gated = activation(_normalize(x, affine)) * gates
    dgated, dkernel = jax.vjp(linear, gated, kernel)[1](dy)
    activated, slope = _activate(activation, x, affine)
    weights, factor = gates.astype(jnp.float32), affine[1]
    change = slope * dgated.astype(jnp.float32)
    by_factor, by_shift = weights * _sum(change * _center(x, affine)), weights * _sum(change)
    dgates = _sum(dgated.astype(jnp.float32) * activated).astype(gates.dtype)
    if recompute:
        dgated, _ = jax.vjp(linear, gated, jax.lax.optimization_barrier(kernel))[1](dy)
        change = slope * dgated.astype(jnp.float32)
    dx = (change * (weights * factor)).astype(x.dtype)
    return dx, _affine_gradient(factor, by_factor, by_shift), dgates, dkernel


_convolve.defvjp(_convolve_forward, _convolve_backward)


def _affine_gradient(factor: jax.Array, by_factor: jax.Array, by_shift: jax.Array) -> Affine:
    return -factor * by_shift, by_factor, by_shift


def _center(x: jax.Array, affine: Affine) -> jax.Array:
    return x.astype(jnp.float32) - affine[0]


def _normalize(x: jax.Array, affine: Affine) -> jax.Array:
    """Returns `(x - center) * factor + shift` in the dtype of x."""
    _, factor, shift = affine
    return (_center(x, affine) * factor + shift).astype(x.dtype)


def _activate(activation: Activation, x: jax.Array, affine: Affine) -> tuple[jax.Array, jax.Array]:
    """Returns the activations and their derivatives by their inputs, in float32."""
    normalized = _normalize(x, affine).astype(jnp.float32)
    return jax.jvp(activation, (normalized,), (jnp.ones_like(normalized),))
