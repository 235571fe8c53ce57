"""Every loss of all negatives against its slow loop, in all engines."""

import dataclasses

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
SHUFFLED = ("pearson", "covariance", "soft_kendall")
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


@pytest.mark.parametrize("engine", ["dense", "chunked", "ring"])
@pytest.mark.parametrize(("name", "options", "similarity"), ROWS, ids=IDS)
def test_equals_the_slow_loop(make_pairs, make_context, name, options, similarity, engine):
    folds = name not in SHUFFLED
    if not folds and engine != "dense":
        pytest.skip("It has no engine.")
    views = make_views(make_pairs, similarity, 16)
    ids = np.array([0, 1, 2, 3, 1, 4, 5, 6, 7, 4, 8, 9, 10, 2, 11, 12], np.int32)
    mesh = mesh_lib.make_mesh(jax.devices()[: 8 if engine == "ring" else 1])
    how = {"engine": engine, "chunk_size": 3} if folds else {}

    @jax.jit
    def loss(views, ids):
        context = make_context(ids, similarity, key=KEY, mesh=mesh)
        return LOSSES[name].function(*views, context, **options, **how)[0]

    placed = jax.device_put((views, ids), mesh_lib.batch_sharded(mesh))
    value, gradients = jax.value_and_grad(loss)(*placed)
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
