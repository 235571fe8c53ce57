"""Negatives that change with the step, and parity with the papers' formulas in torch."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xmodal.losses.triplet import distance_triplet

IDS = np.arange(9, dtype=np.int32)


def assert_equals_torch(loss, views, expected, vectors):
    """Compares a loss and its gradients with `expected` and those of the tensors `vectors`."""
    expected.backward()
    value, gradients = jax.jit(jax.value_and_grad(loss))(views)
    np.testing.assert_allclose(value, expected.item(), rtol=1e-5)
    for gradient, side in zip(gradients, vectors, strict=True):
        np.testing.assert_allclose(gradient.vector, side.grad, rtol=1e-4, atol=1e-6)


def test_equals_the_batch_hard_triplet_of_cmcm(make_pairs, make_context):
    torch = pytest.importorskip("torch")
    views = make_pairs(9)
    vectors = [torch.tensor(view.vector, requires_grad=True) for view in views]
    items = torch.cat([torch.nn.functional.normalize(side, dim=1) for side in vectors])
    squares = (items**2).sum(1, keepdim=True)
    distances = (squares + squares.t() - 2 * items @ items.t()).clamp(min=1e-12).sqrt()
    labels = torch.arange(9).repeat(2)
    same = labels[:, None] == labels[None, :]
    hardest_positive = (distances * same).max(dim=1)[0]
    hardest_negative = (distances + 1e4 * same).min(dim=1)[0]
    expected = (hardest_positive - hardest_negative + 0.3).clamp(min=0).mean()

    def loss(views):
        unit = [
            dataclasses.replace(
                view, vector=view.vector / jnp.linalg.norm(view.vector, axis=1, keepdims=True)
            )
            for view in views
        ]
        return distance_triplet(*unit, make_context(IDS, "euclidean"))[0]

    assert_equals_torch(loss, views, expected, vectors)
