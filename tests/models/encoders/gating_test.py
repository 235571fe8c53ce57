"""Values and gradients equal those of plain autodiff of the same formulas in float32."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xmodal.models.encoders import gating


def _block(mean, convolve):
    """The middle of a block and its last product, with gates as a function of the means."""

    def block(x, affine, weights, kernel):
        gates = jax.nn.sigmoid(mean(x, affine).astype(x.dtype) * weights)
        return convolve(x, affine, gates, kernel)

    return block


def _normalize(x, affine):
    center, factor, shift = affine
    return ((x.astype(jnp.float32) - center) * factor + shift).astype(x.dtype)


@pytest.mark.slow
@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("inner", [(6,), (2, 6)], ids=["images", "packed"])
@pytest.mark.parametrize("activation", [jax.nn.silu, jax.nn.relu6])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("bfloat16", 0.03)])
def test_equals_plain_autodiff(dtype, tolerance, activation, inner, recompute):
    rng = np.random.default_rng(0)
    of_items = (4, 1, 1, *inner)
    x, cotangent = (
        jnp.asarray(rng.normal(size=(4, 5, 3, *inner[:-1], size)), dtype) for size in (6, 2)
    )
    affine = tuple(jnp.asarray(rng.normal(size=of_items), jnp.float32) for _ in range(3))
    weights = jnp.asarray(rng.normal(size=of_items), dtype)
    inputs = (x, affine, weights, jnp.asarray(rng.normal(size=(6, 2)), dtype))

    def mean(x, affine):
        activated = activation(_normalize(x, affine))
        return jnp.mean(activated, axis=(1, 2), keepdims=True, dtype=jnp.float32)

    def convolve(x, affine, gates, kernel):
        return jnp.matmul(activation(_normalize(x, affine)) * gates, kernel)

    def convolve_gated(x, affine, gates, kernel):
        gate = gating.Gate(activation, affine, gates, recompute)
        return gating.convolve(jnp.matmul, gate, x, kernel)

    def run(block, inputs, cotangent):
        value, pull = jax.vjp(block, *inputs)
        return value, pull(cotangent)

    found = run(_block(partial(gating.mean, activation), convolve_gated), inputs, cotangent)
    exact = jax.tree.map(lambda each: each.astype(jnp.float32), (inputs, cotangent))
    expected = run(_block(mean, convolve), *exact)
    assert [leaf.dtype for leaf in jax.tree.leaves(found[1])] == [
        leaf.dtype for leaf in jax.tree.leaves(inputs)
    ]

    def check(ours, plain):
        ours, plain = (np.asarray(each, np.float64) for each in (ours, plain))
        assert np.max(np.abs(ours - plain)) <= tolerance * np.max(np.abs(plain))

    jax.tree.map(check, found, expected)
