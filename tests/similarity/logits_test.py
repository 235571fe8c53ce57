"""Logits of losses against definitions in float64, also at their extremes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.losses import references
from xmodal.similarity import SIMILARITIES, make_similarity

SEVERAL = ["match_probability", "max_cosine"]


@pytest.mark.parametrize("name", sorted(SIMILARITIES))
def test_equals_the_definition(name):
    rng = np.random.default_rng(0)
    several = ((3,), (2,)) if name in SEVERAL else ((), ())
    left, right = (
        (0.3 * rng.normal(size=(size, *k, 5))).astype(np.float32)
        for size, k in zip((7, 11), several, strict=True)
    )
    similarity = make_similarity({"name": name})
    params = similarity.init()
    found = jax.jit(
        lambda x, y: similarity.logits(similarity.prepare(x), similarity.prepare(y), params)
    )(left, right)
    expected = references.score_pairs(name, left, right)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_log_odds_at_their_extremes():
    similarity = make_similarity({"name": "match_probability"})
    # One query with one sample; items with two samples each, at these distances.
    distances = np.array([[0, 0], [0, 1], [0.5, 3], [2, 2], [7, 8], [30, 50], [0, 1000]])
    left = np.zeros((1, 1, 1), np.float32)
    right = distances[..., None].astype(np.float32)

    def log_odds(right, params):
        return similarity.logits(similarity.prepare(left), similarity.prepare(right), params)[0]

    @jax.jit
    def compute(right, params):
        gradients = jax.grad(lambda *x: jnp.sum(log_odds(*x)), argnums=(0, 1))(right, params)
        return log_odds(right, params), gradients

    for scale in (1.0, 15.0, 100.0):
        for shift in (0.0, 15.0, 100.0):
            found, gradients = compute(right, {"match_scale": scale, "match_shift": shift})
            expected = [
                references.match_log_odds(np.sqrt(row**2 + 1e-6), scale, shift) for row in distances
            ]
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)
            assert all(np.all(np.isfinite(gradient)) for gradient in jax.tree.leaves(gradients))
            # However unlikely a match, its samples are still pulled together.
            assert np.all(gradients[0][4:6].sum(axis=1) < 0)


@pytest.mark.parametrize("name", ["euclidean", "order"])
def test_distances_of_nothing_have_no_gradient(name):
    similarity = make_similarity({"name": name})
    same = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)

    def total(left, right):
        return jnp.sum(similarity.paired(similarity.prepare(left), similarity.prepare(right), {}))

    value, gradients = jax.jit(jax.value_and_grad(total, argnums=(0, 1)))(same, same)
    assert abs(value) < 0.01
    for gradient in gradients:
        assert np.all(np.isfinite(gradient))
    if name == "order":
        assert value == 0
        assert all(np.all(gradient == 0) for gradient in gradients)
