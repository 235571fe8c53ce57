"""Every similarity against a slow reference in float64, and bitwise properties for ranking."""

import jax
import numpy as np
import pytest

from xmodal.similarity import SIMILARITIES, make_similarity

MATCH = {"match_scale": 4.0, "match_shift": 3.5}
PARAMETERS = {"match_probability": MATCH}
NAMES = sorted(SIMILARITIES)
SEVERAL = ["match_probability", "max_cosine"]
# As outside of the tests, see `short_runs`: optimized programs round differently.
OPTIMIZED = {"xla_backend_optimization_level": 3, "xla_llvm_disable_expensive_passes": False}


def make_items(count, several, dim, seed):
    shape = (count, several, dim) if several else (count, dim)
    return (np.random.default_rng(seed).normal(size=shape) / np.sqrt(dim)).astype(np.float32)


def make_pair(name, sizes, several=3, dim=37):
    several = several if name in SEVERAL else None
    return [make_items(size, several, dim, seed) for seed, size in enumerate(sizes)]


def make_scorer(name, parameters=None):
    return make_similarity({"name": name}).scorer(parameters or PARAMETERS.get(name))


def compute_scores(name, left, right, options=None):
    prepare, score = make_scorer(name)
    prepare, score = jax.jit(prepare), jax.jit(score, compiler_options=options)
    return np.asarray(score(prepare(left), prepare(right)))


@pytest.mark.parametrize("distance", [0.1, 10.0])
def test_pairs_whose_probability_rounds_to_0_or_1_keep_their_order(distance):
    """At PCME's scale, float32 cannot represent probabilities with 2 (15 - 15 d) < -88 or >= 17."""
    x = make_items(1, 7, 64, seed=0)
    shifts = np.linspace(distance, 1.01 * distance, 50)
    y = x + np.float32(shifts[:, None, None]) * np.eye(64, dtype=np.float32)[0]
    x, y = 0.01 * x, y - 0.99 * x
    parameters = {"match_scale": 15.0, "match_shift": 15.0}
    prepare, score = map(jax.jit, make_scorer("match_probability", parameters))
    scores = np.asarray(score(prepare(x), prepare(y)))[0]
    assert np.all(np.diff(scores) < 0)
    np.testing.assert_allclose(scores, 30 * (1 - shifts), rtol=0.05)


@pytest.mark.parametrize("name", NAMES)
def test_copies_of_an_item_tie_exactly(name):
    left, right = make_pair(name, (70, 150), dim=200)
    copies = np.array([0, 3, 63, 64, 65, 127, 128, 148, 149])
    right[copies] = right[77]
    left[[4, 20, 69]] = left[9]
    scores = compute_scores(name, left, right, OPTIMIZED)
    np.testing.assert_array_equal(
        scores[:, copies], np.repeat(scores[:, [77]], len(copies), axis=1)
    )
    np.testing.assert_array_equal(scores[[4, 20, 69]], scores[[9, 9, 9]])
