"""Edge cases of the softmax loss; its values are tested with the other losses."""

import dataclasses

import jax
import numpy as np
import pytest

from xmodal.core import mesh as mesh_lib
from xmodal.losses.softmax import softmax

FORMS = ["with_positive", "printed"]


@pytest.fixture
def compute(make_context, make_pairs):
    """Loss, gradients and scalars of vectors [B, D]."""
    example, _ = make_pairs(2)

    def run(left, right, ids, **options):
        def loss(left, right):
            views = [dataclasses.replace(example, vector=side) for side in (left, right)]
            return softmax(*views, make_context(ids), **options)

        run = jax.jit(jax.value_and_grad(loss, argnums=(0, 1), has_aux=True))
        (value, scalars), gradients = run(left, right)
        return value, gradients, scalars

    return run


def test_a_query_on_one_device_pushes_the_negatives_of_all(make_pairs, compute):
    left, right = (view.vector for view in make_pairs(16, dim=3))
    left[2:] = 0.0  # Only the two queries of the first device pull or push anything.
    ids = np.arange(16, dtype=np.int32)
    batch = mesh_lib.global_batch({"left": left, "right": right, "ids": ids}, mesh_lib.make_mesh())
    _, (_, pushed), _ = compute(batch["left"], batch["right"], batch["ids"])
    assert np.all(np.abs(pushed).sum(axis=1) > 0)


@pytest.mark.parametrize("form", FORMS)
def test_a_batch_of_one_image_has_no_loss_and_no_gradient(make_pairs, compute, form):
    left, right = (view.vector for view in make_pairs(3))
    value, gradients, _ = compute(left, right, np.zeros(3, np.int32), form=form)
    assert value == 0
    assert all(np.all(gradient == 0) for gradient in gradients)


def test_accuracy_counts_partners_scored_above_every_negative(compute):
    left = np.eye(4, dtype=np.float32)
    # Item 0 scores item 1 (3) above its own partner (2); item 3 scores item 2 alike.
    right = np.array([[2, 0, 0, 0], [3, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1]], np.float32)
    scalars = compute(left, right, np.arange(4, dtype=np.int32))[2]
    np.testing.assert_allclose(scalars["accuracy"], 2 / 4)
    right[3] = np.nan
    assert compute(left, right, np.arange(4, dtype=np.int32))[2]["accuracy"] == 0


@pytest.mark.parametrize("engine", ["dense", "chunked"])
@pytest.mark.parametrize("form", FORMS)
def test_an_embedding_that_is_nan_is_seen_in_the_loss(make_pairs, compute, engine, form):
    left, right = (view.vector for view in make_pairs(7, dim=3))
    right[4, 1] = np.nan
    ids = np.arange(7, dtype=np.int32)
    assert np.isnan(compute(left, right, ids, form=form, engine=engine, chunk_size=3)[0])


def test_large_scores_stay_finite(compute):
    same = np.full((4, 2), 30.0, np.float32)
    value, gradients, _ = compute(same, same, np.arange(4, dtype=np.int32))
    np.testing.assert_allclose(value, np.log(4), rtol=1e-3)
    assert all(np.all(np.isfinite(gradient)) for gradient in gradients)
