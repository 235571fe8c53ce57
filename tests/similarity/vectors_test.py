"""Unit vectors of every length."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xmodal.similarity import vectors


def make_vectors(length, count=40, dim=300):
    x = np.random.default_rng(0).normal(size=(count, dim))
    return (length * x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize("length", [1e-30, 1e-19, 1e-7, 1e-4, 1.0, 1e7, 1e19, 1e30, 1e38])
def test_vectors_of_any_length_become_unit_vectors(length):
    x = make_vectors(length)
    exact = x.astype(np.float64)
    expected = exact / np.linalg.norm(exact, axis=1, keepdims=True)
    np.testing.assert_allclose(vectors.unit_length(x), expected, rtol=3e-7)
    np.testing.assert_allclose(jax.jit(vectors.unit_length)(x), expected, rtol=3e-7)


def test_zero_stays_zero_and_nan_is_seen():
    x = np.array([[0, 0], [3, 4], [np.nan, 1], [np.inf, 1]], np.float32)
    unit = vectors.unit_length(x)
    np.testing.assert_allclose(unit[:2], [[0, 0], [0.6, 0.8]], rtol=1e-6)
    assert np.all(np.any(np.isnan(unit[2:]), axis=1))
    gradient = jax.jit(jax.grad(lambda v: jnp.sum(vectors.unit_length(v))))(x[:2])
    assert np.all(gradient[0] == 0)
    assert np.all(np.isfinite(gradient[1]))


def test_the_gradient_is_that_of_the_plain_quotient():
    rng = np.random.default_rng(3)
    x, weights = rng.normal(size=(2, 5, 3, 7)).astype(np.float32)
    x *= np.float32(10.0) ** rng.integers(-6, 6, size=(5, 3, 1))

    def total(unit_length):
        return lambda v: jnp.sum(unit_length(v) * weights)

    found = jax.jit(jax.grad(total(vectors.unit_length)))(x)
    plain = total(lambda v: v / jnp.linalg.norm(v, axis=-1, keepdims=True))
    expected = jax.jit(jax.grad(plain))(x)
    # In units of each vector's largest slope, which are powers of ten apart.
    largest = np.abs(expected).max(axis=-1, keepdims=True)
    np.testing.assert_allclose(found / largest, expected / largest, atol=1e-5)
