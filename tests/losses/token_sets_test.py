"""Losses of a similarity over token sets: every engine equals a slow loop and dense gradients."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.similarity.token_views import make_params, make_views
from xmodal.core import mesh as mesh_lib
from xmodal.losses import LOSSES, Context
from xmodal.similarity import make_similarity

SAF = make_similarity({"name": "saf", "width": 5, "learned_temperature": True, "temperature": 0.1})
LOSS_ROWS = {
    "hardest": ("triplet", {"mining": "hardest", "margin": 0.5}),
    "sum": ("triplet", {"mining": "all", "margin": 0.5}),
    "softmax": ("softmax", {}),
}


def make_ids(size):
    return np.arange(size, dtype=np.int32) // 2


def evaluate(views, ids, params, row, mesh=None, **options):
    name, given = LOSS_ROWS[row]

    def loss(views, params):
        context = Context(ids, SAF, params, mesh=mesh)
        return LOSSES[name].function(*views, context, **given, **options)[0]

    value, gradients = jax.value_and_grad(loss, argnums=(0, 1), allow_int=True)(views, params)
    return value, *(
        jax.tree.map(lambda x: x if jnp.issubdtype(x.dtype, jnp.floating) else 0, each)
        for each in gradients
    )


@functools.cache
def compute_dense(row, size):
    views = make_views((size, size))
    run = jax.jit(functools.partial(evaluate, row=row))
    return run(views, make_ids(size), make_params(SAF, views))


# Both rows in every engine; the numbers of devices take turns.
CASES = [
    ("hardest", "chunked", 1, 11),
    ("hardest", "ring", 2, 16),
    ("hardest", "ring", 8, 16),
    ("hardest", "auto:1", 2, 16),
    ("sum", "chunked", 8, 16),
    ("sum", "dense", 8, 16),
]


@pytest.mark.slow
@pytest.mark.parametrize(("row", "name", "devices", "size"), CASES)
def test_an_engine_equals_dense(row, name, devices, size):
    views = make_views((size, size))
    params = make_params(SAF, views)
    mesh = mesh_lib.make_mesh(jax.devices()[:devices])
    views, ids = jax.device_put((views, make_ids(size)), mesh_lib.batch_sharded(mesh))
    params = jax.device_put(params, mesh_lib.replicated(mesh))
    run = functools.partial(evaluate, row=row, engine=name, chunk_size=3, mesh=mesh)
    found, expected = jax.jit(run)(views, ids, params), compute_dense(row, size)
    of_params = jax.tree.leaves(expected[2])
    assert all(np.abs(each).max() > 0 for each in of_params)
    for got, wanted in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        scale = max(np.abs(wanted).max(), 1e-2)
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4 * scale)
