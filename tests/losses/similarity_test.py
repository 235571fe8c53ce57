import jax
import numpy as np
import pytest

from xmodal.losses import similarity


def test_inner_products_of_prepared_vectors_are_the_similarity():
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(5, 3)), rng.normal(size=(7, 3))
    dot = similarity.normalise("dot", left) @ similarity.normalise("dot", right).T
    cosine = similarity.normalise("cosine", left) @ similarity.normalise("cosine", right).T
    np.testing.assert_allclose(dot, left @ right.T, rtol=1e-5)
    lengths = np.linalg.norm(left, axis=1)[:, None] * np.linalg.norm(right, axis=1)
    np.testing.assert_allclose(cosine, left @ right.T / lengths, rtol=1e-5)


def test_a_zero_vector_has_a_finite_gradient():
    gradient = jax.grad(lambda v: similarity.normalise("cosine", v).sum())(np.zeros(3, np.float32))
    assert np.all(np.isfinite(gradient))


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match="cosine"):
        similarity.normalise("cosin", np.zeros((1, 2)))
