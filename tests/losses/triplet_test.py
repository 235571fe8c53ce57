"""Negatives that change with the step, and parity with the papers' formulas in torch."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.losses import references
from xmodal.core import mesh as mesh_lib
from xmodal.losses.triplet import distance_triplet, triplet
from xmodal.models import Embedding

IDS = np.arange(9, dtype=np.int32)


def test_the_share_of_all_negatives_may_change_with_the_step(make_pairs, make_context):
    views, context = make_pairs(9), make_context(IDS)

    @jax.jit
    def compute(share):
        shares = [triplet(*views, context, mining="hardest", all_share=x)[0] for x in (share, 0.0)]
        return [*shares, triplet(*views, context, mining="all")[0]]

    for share in (0.0, 0.25, 1.0):
        mixed, hardest, everything = compute(jnp.float32(share))
        np.testing.assert_allclose(mixed, share * everything + (1 - share) * hardest, rtol=1e-6)
    assert hardest != everything


@pytest.mark.parametrize("engine", ["dense", "chunked", "ring"])
def test_the_easiest_negative_stands_in_where_nothing_is_semi_hard(
    make_pairs, make_context, engine
):
    views = make_pairs(16)
    # Every other item is far from its partner and has no negative below it.
    signs = np.where(np.arange(16) % 2, 1, -1)[:, None]
    views = [views[0], dataclasses.replace(views[0], vector=signs * views[0].vector)]
    ids, mesh = np.arange(16, dtype=np.int32), mesh_lib.make_mesh()

    @jax.jit
    def compute(views, ids):
        context = make_context(ids, "cosine", mesh=mesh)
        names = ("semi_hard", "semi_hard_or_easiest")
        options = {"engine": engine, "chunk_size": 3}
        return [triplet(*views, context, mining=name, **options)[0] for name in names]

    alone, either = compute(*jax.device_put((views, ids), mesh_lib.batch_sharded(mesh)))
    scores = references.score_pairs("cosine", *(np.asarray(view.vector) for view in views))
    for found, mining in ((alone, "semi_hard"), (either, "semi_hard_or_easiest")):
        np.testing.assert_allclose(found, references.triplet(scores, ids, mining=mining), rtol=1e-5)
    # As many hinges as there are such items, in both directions.
    assert either > alone + 16 * 0.2


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


@pytest.mark.parametrize("engine", ["dense", "chunked"])
@pytest.mark.parametrize("width", [256, 1024])
def test_a_copy_of_the_partner_is_not_a_semi_hard_negative(make_context, engine, width):
    """An image that occurs twice in a batch ties with itself, regardless of rounding."""
    generator = np.random.default_rng(width)
    images = generator.standard_normal((16, width)).astype(np.float32).repeat(2, axis=0)
    captions = images + 0.3 * generator.standard_normal((32, width)).astype(np.float32)
    views = [Embedding(jnp.asarray(each), None, {}) for each in (images, captions)]
    context = make_context(np.arange(32, dtype=np.int32), "cosine")
    options = {"engine": engine, "chunk_size": 8, "mining": "semi_hard"}
    loss, scalars = jax.jit(lambda: triplet(*views, context, **options))()

    unit = [each.astype(np.float64) for each in (images, captions)]
    unit = [each / np.linalg.norm(each, axis=1, keepdims=True) for each in unit]
    scores, expected = unit[0] @ unit[1].T, 0.0
    for item, partner in enumerate(np.diag(scores)):
        twin = item ^ 1
        rows = [each for each in range(32) if each != item and scores[item, each] < partner]
        columns = [
            each for each in range(32) if each not in (item, twin) and scores[each, item] < partner
        ]
        for negatives in (scores[item, rows], scores[columns, item]):
            expected += max(0.0, 0.2 + negatives.max(initial=-np.inf) - partner)
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    # For two equal images, the nearer of their captions is best for both.
    nearer = np.diag(scores) > scores[np.arange(32), np.arange(32) ^ 1]
    assert scalars["accuracy"] == np.mean(nearer)
