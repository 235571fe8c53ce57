"""Every loss in the table against its slow loop, with the same results in all engines."""

import dataclasses
import functools

import jax
import numpy as np
import pytest

from tests.losses import references
from xmodal.core import mesh as mesh_lib
from xmodal.losses import LOSSES

KEY = jax.random.key(3)

# Name of the loss, options, similarity: one row per behavior.
ROWS = [
    ("softmax", {}, "dot"),
    ("softmax", {"directions": "sum"}, "cosine"),
    ("softmax", {"form": "printed"}, "dot"),
    ("sigmoid", {}, "dot"),
    ("soft_contrastive", {}, "match_probability"),
    ("soft_contrastive", {"directions": "mean", "kl_weight": 0.3}, "match_probability"),
    ("triplet", {"margin": 0.3}, "cosine"),
    ("triplet", {"mining": "hardest", "reduction": "mean"}, "max_cosine"),
    ("triplet", {"mining": "all"}, "cosine"),
    ("triplet", {"mining": "all", "reduction": "mean"}, "order"),
    ("triplet", {"mining": "semi_hard", "margin": 1.5}, "dot"),
    ("triplet", {"mining": "semi_hard_or_easiest", "margin": 1.5}, "dot"),
    ("distance_triplet", {"margin": 1.0}, "euclidean"),
    ("pearson", {}, "cosine"),
    ("covariance", {}, "dot"),
    ("soft_kendall", {"alpha": 0.2}, "cosine"),
    ("soft_kendall", {"alpha": 5.0}, "cosine"),
]
SHUFFLED = {"pearson": {}, "covariance": {}, "soft_kendall": {"alpha": 1.0}}
IDS = [f"{name}-{'-'.join(map(str, options.values()))}-{sim}" for name, options, sim in ROWS]


def make_views(make_pairs, similarity, size):
    several = similarity in ("match_probability", "max_cosine")
    views = make_pairs(size, samples=3 if several else None, log_sigma=True)
    if similarity == "match_probability":  # Near unit vectors, like PCME's samples.
        views = [dataclasses.replace(view, vector=view.vector / np.float32(4.0)) for view in views]
    return views


def compute_reference(name, options, similarity, views, ids):
    """The loss of vectors in float64."""
    options = dict(options)
    vectors = [np.asarray(view.vector, np.float64) for view in views]
    if name == "distance_triplet":
        return references.distance_triplet(similarity, *vectors, ids, **options)
    scores = references.score_pairs(similarity, *vectors)
    if name in SHUFFLED:
        order = np.asarray(jax.random.permutation(KEY, len(ids)))
        return getattr(references, name)(scores, order, **options)
    kl_weight = options.pop("kl_weight", 1e-5)
    loss = getattr(references, name)(scores, ids, **options)
    if name == "soft_contrastive":
        spread = [np.asarray(view.log_sigma) for view in views]
        loss += kl_weight * sum(map(references.divergence, vectors, spread))
    return loss


@pytest.mark.parametrize(("name", "options", "similarity"), ROWS, ids=IDS)
def test_equals_the_slow_loop(make_pairs, make_context, name, options, similarity):
    size = 11
    views = make_views(make_pairs, similarity, size)
    ids = np.array([0, 1, 2, 3, 1, 4, 5, 6, 7, 4, 8], np.int32)
    context = make_context(ids, similarity, key=KEY)

    @jax.jit
    @jax.value_and_grad
    def loss(views):
        return LOSSES[name].function(*views, context, **options)[0]

    value, gradients = loss(views)
    expected = compute_reference(name, options, similarity, views, ids)
    np.testing.assert_allclose(value, expected, rtol=2e-5)
    # Central differences, along a random direction over all vectors of both views.
    rng = np.random.default_rng(1)
    directions = [rng.normal(size=view.vector.shape) for view in views]
    ends = []
    for step in (1e-6, -1e-6):
        moved = [
            dataclasses.replace(view, vector=view.vector + step * direction)
            for view, direction in zip(views, directions, strict=True)
        ]
        ends.append(compute_reference(name, options, similarity, moved, ids))
    slope = sum(
        np.sum(gradient.vector * direction)
        for gradient, direction in zip(gradients, directions, strict=True)
    )
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / 2e-6, rtol=2e-4, atol=1e-5)


LEARNED = {"name": "cosine", "learned_temperature": True}
# Family -> loss, options, similarity.
FOLDED = {
    "softmax": ("softmax", {}, LEARNED | {"temperature": 0.1}),
    "sigmoid": ("sigmoid", {}, LEARNED | {"bias": -1.0, "learned_bias": True}),
    "soft_contrastive": (
        "soft_contrastive",
        {},
        {"name": "match_probability", "match_scale": 5, "match_shift": 5},
    ),
    "hinge_sum": ("triplet", {"mining": "all"}, LEARNED),
    "hinge_hardest": ("triplet", {"mining": "hardest"}, LEARNED),
    "hinge_semi_hard": ("triplet", {"mining": "semi_hard"}, LEARNED),
    "max_cosine": ("triplet", {"mining": "hardest"}, {"name": "max_cosine"}),
    "distance_triplet": (
        "distance_triplet",
        {},
        {"name": "euclidean", "learned_temperature": True},
    ),
}


def engine_cases():
    """Every family in both engines; `engine_test` has every reduction on more devices."""
    for family in FOLDED:
        yield family, "chunked", 1
        yield family, "ring", 8


def compute(family, views, ids, params, margin, make_context, engine="dense", mesh=None):
    """The value of a loss, and its gradients by views and parameters."""
    name, options, similarity = FOLDED[family]

    def loss(views, params):
        context = make_context(ids, similarity, params, mesh=mesh)
        given = options | ({"margin": margin} if "triplet" in name else {})
        return LOSSES[name].function(*views, context, engine=engine, chunk_size=3, **given)[0]

    return jax.value_and_grad(loss, argnums=(0, 1))(views, params)


@pytest.fixture(scope="module")
def folded(make_pairs, make_context):
    """Family -> the inputs of `compute`, and the results of the dense engine."""

    @functools.cache
    def make(family):
        _, _, similarity = FOLDED[family]
        views = make_views(make_pairs, similarity["name"], 16)
        ids = np.arange(16, dtype=np.int32) // 2 * np.array([1, 3] * 8, np.int32)
        params = make_context(ids, similarity).similarity.init()
        margin = np.float32(0.4)  # A schedule returns an array.
        inputs = views, ids, params, margin
        run = jax.jit(functools.partial(compute, family, make_context=make_context))
        return inputs, run(*inputs)

    return make


@pytest.mark.parametrize(("family", "engine", "devices"), engine_cases())
def test_an_engine_equals_dense(folded, make_context, family, engine, devices):
    (views, ids, params, margin), expected = folded(family)
    mesh = mesh_lib.make_mesh(jax.devices()[:devices])
    sharded = jax.device_put((views, ids), mesh_lib.batch_sharded(mesh))
    whole = jax.device_put((params, margin), mesh_lib.replicated(mesh))
    run = functools.partial(compute, family, make_context=make_context, engine=engine, mesh=mesh)
    found = jax.jit(run)(*sharded, *whole)
    for got, wanted in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        scale = max(np.abs(wanted).max(), 1)
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5 * scale)
