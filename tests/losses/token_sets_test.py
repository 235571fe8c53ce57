"""Losses of a similarity over token sets: every engine equals a slow loop and dense gradients."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.losses import references
from tests.similarity.slow_saf import real_items, score_pairs
from tests.similarity.token_views import make_params, make_views
from xmodal.core import mesh as mesh_lib
from xmodal.losses import LOSSES, Context, engine
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
        context = Context(ids, ids, SAF, SAF.limit(params), mesh=mesh)
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


@pytest.mark.slow
@pytest.mark.parametrize(("row", "size"), [("hardest", 11), ("softmax", 7)])
def test_the_dense_loss_equals_the_slow_loop(row, size):
    views, ids = make_views((size, size)), make_ids(size)
    params = make_params(SAF, views)
    scores = score_pairs(params, *map(real_items, views))
    scores = np.exp(float(params["log_scale"])) / (1 + np.exp(-scores))
    name, options = LOSS_ROWS[row]
    expected = getattr(references, name)(scores, ids, **options)
    np.testing.assert_allclose(compute_dense(row, size)[0], expected, rtol=1e-4)


# Both rows in every engine; the numbers of devices take turns.
CASES = [
    ("hardest", "chunked", 1, 11),
    ("hardest", "chunked", 4, 16),
    ("hardest", "ring", 2, 16),
    ("hardest", "ring", 8, 16),
    ("hardest", "dense", 2, 16),
    ("hardest", "auto:1", 2, 16),
    ("sum", "chunked", 2, 16),
    ("sum", "chunked", 8, 16),
    ("sum", "ring", 1, 16),
    ("sum", "ring", 4, 16),
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


def test_a_budget_chooses_the_tiles():
    fit = functools.partial(engine.fit_chunk, pair_bytes=1e4)
    assert fit("chunked", 1024, 128, devices=1) == 1024
    assert fit("auto:1", 1024, 128, devices=1) == 10  # 10 x 10 pairs of 10 kB.
    assert fit("auto:1", 1024, 128, devices=8) == 6  # All 16 rows of a device.
    assert fit("auto:100", 64, 128, devices=1) == 64
    assert fit("auto:1", 1024, 10_000, devices=1) == 10
    assert fit("auto:1", 1024, 10_000, devices=8) == 1
    choose = functools.partial(engine.choose_engine, rows=128, columns=128, pair_bytes=1e4)
    assert choose("auto:1", devices=1) == "chunked"
    assert choose("auto:164", devices=1) == "dense"
    assert choose("auto:1", devices=8) == "ring"


@pytest.mark.slow
def test_recomputed_tiles_need_less_memory():
    views = make_views((32, 32), regions=9, words=8, width=64)
    params, ids = make_params(SAF, views), make_ids(32)

    def measure(**options):
        run = jax.jit(functools.partial(evaluate, row="hardest", **options))
        return run.lower(views, ids, params).compile().memory_analysis().temp_size_in_bytes

    assert measure(engine="chunked", chunk_size=4) < measure() / 4
