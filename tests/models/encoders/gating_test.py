"""Values and gradients equal those of plain autodiff for the same formulas."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xmodal.models.encoders import gating


def _gate(mean, gate, activation):
    """The middle of a block, with gates as a function of the means."""

    def gated(x, affine, weights):
        gates = jax.nn.sigmoid(mean(activation, x, affine).astype(x.dtype) * weights)
        return gate(activation, x, affine, gates)

    return gated


def _normalize(x, affine):
    center, factor, shift = affine
    return ((x.astype(jnp.float32) - center) * factor + shift).astype(x.dtype)


def _plain_mean(activation, x, affine):
    activated = activation(_normalize(x, affine))
    return jnp.mean(activated, axis=(1, 2), keepdims=True, dtype=jnp.float32)


def _plain_gate(activation, x, affine, gates):
    return activation(_normalize(x, affine)) * gates


@pytest.mark.slow
@pytest.mark.parametrize("inner", [(6,), (2, 6)], ids=["images", "packed"])
@pytest.mark.parametrize("activation", [jax.nn.silu, jax.nn.relu6])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("bfloat16", 0.03)])
def test_equals_plain_autodiff(dtype, tolerance, activation, inner):
    rng = np.random.default_rng(0)
    of_items = (4, 1, 1, *inner)
    x, cotangent = (jnp.asarray(rng.normal(size=(4, 5, 3, *inner)), dtype) for _ in range(2))
    affine = tuple(jnp.asarray(rng.normal(size=of_items), jnp.float32) for _ in range(3))
    weights = jnp.asarray(rng.normal(size=of_items), dtype)
    inputs = (x, affine, weights)
    value, pull = jax.vjp(_gate(gating.mean, gating.gate, activation), *inputs)
    expected, pull_plain = jax.vjp(_gate(_plain_mean, _plain_gate, activation), *inputs)

    def check(ours, plain):
        assert ours.dtype == plain.dtype
        ours, plain = (np.asarray(each, np.float64) for each in (ours, plain))
        assert np.max(np.abs(ours - plain)) <= tolerance * np.max(np.abs(plain))

    jax.tree.map(check, (value, pull(cotangent)), (expected, pull_plain(cotangent)))
