"""Edge cases of the softmax loss; its values are tested with the other losses."""

import dataclasses

import jax
import numpy as np
import pytest

from xmodal.core import mesh as mesh_lib
from xmodal.losses.softmax import softmax


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
