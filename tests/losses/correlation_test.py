"""The shuffled pairs of the correlation losses."""

import dataclasses

import jax
import numpy as np

from xmodal.losses.correlation import pearson

IDS = np.arange(6, dtype=np.int32)


def test_fixed_points_of_the_permutation_stay(make_pairs, make_context):
    # Orthogonal pairs: the score is 1 for a true pair and 0 for a shuffled one.
    example, _ = make_pairs(6)
    views = [dataclasses.replace(example, vector=np.eye(6, dtype=np.float32))] * 2
    found = set()
    run = jax.jit(lambda key: pearson(*views, make_context(IDS, "cosine", key=key)))
    for seed in range(8):
        key = jax.random.key(seed)
        loss, scalars = run(key)
        fixed = np.mean(np.asarray(jax.random.permutation(key, 6)) == IDS)
        np.testing.assert_allclose(scalars["shuffled"], fixed, atol=1e-6)
        if fixed == 0:
            np.testing.assert_allclose(loss, -1, rtol=1e-5)
        found.add(fixed > 0)
    assert found == {True, False}


def test_equal_scores_have_no_correlation_and_no_nan(make_pairs, make_context):
    views = make_pairs(6)
    for view in views:
        view.vector[:] = 1.0
    context = make_context(IDS, "cosine", key=jax.random.key(0))
    value, gradients = jax.jit(jax.value_and_grad(lambda v: pearson(*v, context)[0]))(views)
    # The root of the smallest variance is 1e-4, so a rounding error of 1e-8 in a mean grows to
    # 1e-4.
    np.testing.assert_allclose(value, 0, atol=1e-3)
    assert all(np.all(np.isfinite(gradient.vector)) for gradient in gradients)
