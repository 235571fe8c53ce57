"""Distances of vectors with a large common part, against differences in float64."""

import types

import jax
import numpy as np
import pytest

from tests.losses import references
from xmodal.similarity import make_similarity
from xmodal.similarity.offset import centered, find_offset, remove_offset

OFFSETS = [0.0, 1e3, -1e4, 1e6]
NUMBERS = {"euclidean": {}, "match_probability": {"match_scale": 0.7, "match_shift": 5.0}}


def make_sides(offset, several=(), sizes=(53, 61), width=33):
    """Vectors of unit spread around an offset that differs between dimensions."""
    rng = np.random.default_rng(0)
    common = offset * rng.uniform(0.5, 1, width)
    return [(rng.normal(size=(n, *several, width)) + common).astype(np.float32) for n in sizes]


def test_a_small_offset_stays():
    for offset in (0.0, 2.0):
        assert find_offset(*make_sides(offset)) is None
    assert find_offset(np.zeros((5, 3)), np.zeros((0, 3))) is None
    assert find_offset(np.full((5, 3), np.nan)) is None


@pytest.mark.parametrize("offset", OFFSETS[1:])
def test_removing_an_offset_is_exact(offset):
    left, right = make_sides(offset)
    left[7] = 1e9  # one far away
    found = find_offset(left, right)
    assert np.abs(remove_offset(right, found)).max() < 9
    exact = right.astype(np.float64) - found
    np.testing.assert_array_equal(remove_offset(right, found), exact)


def test_equal_vectors_are_all_offset():
    left, right = np.full((3, 2), 7.1), np.full((4, 2), 7.1)
    np.testing.assert_array_equal(remove_offset(left, find_offset(left, right)), 0)


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("name", NUMBERS)
def test_logits_do_not_depend_on_an_offset(name, offset):
    several = (3,) if name == "match_probability" else ()
    similarity = make_similarity({"name": name, **NUMBERS[name]})
    params = {key: np.float32(value) for key, value in NUMBERS[name].items()}
    left, right = make_sides(offset, several, (13, 13))

    def compute(left, right):
        sides = similarity.prepare_both(left, right, params)
        return similarity.logits(*sides, params), similarity.paired(*sides, params)

    found, paired = jax.jit(compute)(left, right)
    left, right = left.astype(np.float64), right.astype(np.float64)
    if several:
        distances = np.linalg.norm(left[:, None, :, None] - right[None, :, None], axis=-1)
        logits = 2 * (5.0 - 0.7 * np.sqrt(np.square(distances) + 1e-6))
        matches, others = (
            np.mean(1 / (1 + np.exp(-sign * logits)), axis=(2, 3)) for sign in (1, -1)
        )
        expected = np.log(matches) - np.log(others)
    else:
        expected = references.score_pairs(name, left, right)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(paired, np.diag(expected), rtol=1e-4, atol=1e-5)


def test_the_gradient_is_that_of_the_distances():
    similarity = make_similarity({"name": "euclidean"})
    left, right = make_sides(1e4, sizes=(4, 5))

    def total(left, right):
        return similarity.logits(*similarity.prepare_both(left, right), {}).sum()

    found = jax.jit(jax.grad(total, (0, 1)))(left, right)
    differences = left[:, None].astype(np.float64) - right[None]
    unit = differences / np.linalg.norm(differences, axis=-1, keepdims=True)
    np.testing.assert_allclose(found[0], -unit.sum(1), atol=1e-4)
    np.testing.assert_allclose(found[1], unit.sum(0), atol=1e-4)


def test_only_distances_are_centered():
    for name in ("dot", "order"):
        similarity = make_similarity({"name": name})
        left, right = make_sides(1e3)
        assert similarity.find_offset(left, right) is None
        np.testing.assert_array_equal(similarity.prepare_both(left, right)[0], left)
    view = types.SimpleNamespace(vector=left, log_sigma=None, extras={"mean": right})
    by_mean = make_similarity({"name": "euclidean", "field": "mean"})
    expected = by_mean.prepare(centered(right, right)[0])
    jax.tree.map(np.testing.assert_array_equal, by_mean.prepare_both(view, view)[0], expected)
