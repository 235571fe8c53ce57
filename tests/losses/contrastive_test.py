"""The softmax loss against a slow reference, and the same on any number of devices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xmodal import mesh as mesh_lib
from xmodal.losses import softmax_loss


def make_pairs(size, dim, num_groups, seed=0):
    rng = np.random.default_rng(seed)
    left = rng.normal(size=(size, dim)).astype(np.float32)
    right = (0.5 * left + rng.normal(size=(size, dim))).astype(np.float32)
    return left, right, rng.integers(num_groups, size=size).astype(np.int32)


def reference(left, right, groups, form="with_positive", directions="mean"):
    """One query after the other, float64, straight from the definition."""
    left, right = left.astype(np.float64), right.astype(np.float64)
    totals = []
    for queries, gallery in ((left, right), (right, left)):
        losses = []
        for i, query in enumerate(queries):
            positive = query @ gallery[i]
            negatives = [query @ g for j, g in enumerate(gallery) if groups[j] != groups[i]]
            if not negatives:
                losses.append(0.0)
                continue
            terms = [positive, *negatives] if form == "with_positive" else negatives
            losses.append(np.logaddexp.reduce(terms) - positive)
        totals.append(np.mean(losses))
    return sum(totals) * {"mean": 0.5, "sum": 1.0}[directions]


def numeric_gradient(left, right, groups, index, **options):
    """Central differences with respect to left[index] and right[index]."""
    slopes = []
    for side in range(2):
        ends = []
        for sign in (1, -1):
            moved = [left.astype(np.float64), right.astype(np.float64)]
            moved[side][index] += sign * 1e-5
            ends.append(reference(*moved, groups, **options))
        slopes.append((ends[0] - ends[1]) / 2e-5)
    return slopes


@pytest.mark.parametrize("engine", ["dense", "chunked"])
@pytest.mark.parametrize("form", ["with_positive", "printed"])
@pytest.mark.parametrize("directions", ["mean", "sum"])
@pytest.mark.parametrize(("size", "num_groups"), [(13, 9), (29, 6)])
def test_equals_the_slow_reference(engine, form, directions, size, num_groups):
    left, right, groups = make_pairs(size, 5, num_groups)
    options = {"form": form, "directions": directions}

    def loss(left, right):
        return softmax_loss(left, right, groups, engine=engine, chunk_size=4, **options)[0]

    value, gradients = jax.value_and_grad(loss, argnums=(0, 1))(left, right)
    np.testing.assert_allclose(value, reference(left, right, groups, **options), rtol=2e-5)
    for index in ((0, 0), (size - 1, 4), (size // 2, 2)):
        expected = numeric_gradient(left, right, groups, index, **options)
        np.testing.assert_allclose([g[index] for g in gradients], expected, rtol=2e-3, atol=2e-5)


@pytest.mark.parametrize("engine", ["dense", "chunked"])
@pytest.mark.parametrize("devices", [2, 4, 8])
def test_value_and_gradient_do_not_depend_on_the_device_count(engine, devices):
    left, right, groups = make_pairs(24, 11, 15)

    def loss(left, right, groups):
        return softmax_loss(left, right, groups, engine=engine, chunk_size=5)[0]

    function = jax.value_and_grad(loss, argnums=(0, 1))
    expected_value, expected_gradients = function(left, right, jnp.asarray(groups))

    mesh = mesh_lib.make_mesh(jax.devices()[:devices])
    batch = mesh_lib.global_batch({"left": left, "right": right, "groups": groups}, mesh)
    value, gradients = jax.jit(function)(batch["left"], batch["right"], batch["groups"])
    np.testing.assert_allclose(value, expected_value, rtol=1e-6)
    for gradient, expected in zip(gradients, expected_gradients, strict=True):
        np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-7)


def test_a_query_on_one_device_pushes_the_negatives_of_all():
    left, right, groups = make_pairs(16, 3, 100)
    left[2:] = 0.0  # Only the two queries of the first device pull or push anything.
    mesh = mesh_lib.make_mesh()
    batch = mesh_lib.global_batch({"left": left, "right": right, "groups": groups}, mesh)
    gradient = jax.jit(jax.grad(lambda right, left, groups: softmax_loss(left, right, groups)[0]))
    pushed = gradient(batch["right"], batch["left"], batch["groups"])
    assert np.all(np.abs(pushed).sum(axis=1) > 0)


def test_captions_of_one_image_are_no_negatives_of_each_other():
    left, right, _ = make_pairs(4, 3, 4)
    groups = np.array([7, 7, 8, 9], np.int32)
    left[1:] = 0.0  # Only item 0 asks.

    def left_to_right(right):
        # Right-to-left also pushes, so take the difference between asking and not asking.
        return softmax_loss(left, right, groups, directions="sum")[0]

    pushed = jax.grad(left_to_right)(right)
    assert np.all(np.asarray(pushed)[1] == 0)
    assert np.all(np.abs(np.asarray(pushed)[2:]).sum(axis=1) > 0)


@pytest.mark.parametrize("form", ["with_positive", "printed"])
def test_a_batch_of_one_image_has_no_loss_and_no_gradient(form):
    left, right, _ = make_pairs(3, 4, 1)
    groups = np.zeros(3, np.int32)
    value, gradient = jax.value_and_grad(lambda v: softmax_loss(v, right, groups, form=form)[0])(
        left
    )
    assert value == 0
    assert np.all(gradient == 0)


def test_accuracy_counts_partners_scored_above_every_negative():
    left = np.eye(3, dtype=np.float32)
    right = np.array([[2, 0, 0], [3, 1, 0], [0, 0, 1]], np.float32)
    # Item 0 scores item 1 (3) above its own partner (2).
    scalars = softmax_loss(left, right, np.arange(3, dtype=np.int32))[1]
    np.testing.assert_allclose(scalars["accuracy"], 2 / 3, rtol=1e-6)


@pytest.mark.parametrize("engine", ["dense", "chunked"])
@pytest.mark.parametrize("form", ["with_positive", "printed"])
def test_an_embedding_that_is_nan_is_seen_in_the_loss(engine, form):
    left, right, groups = make_pairs(7, 3, 7)
    right[4, 1] = np.nan
    loss, _ = softmax_loss(left, right, groups, form=form, engine=engine, chunk_size=3)
    assert np.isnan(loss)


def test_large_scores_stay_finite():
    left = np.full((4, 2), 30.0, np.float32)
    groups = np.arange(4, dtype=np.int32)
    value, gradient = jax.value_and_grad(lambda v: softmax_loss(v, left, groups)[0])(left)
    np.testing.assert_allclose(value, np.log(4), rtol=1e-3)
    assert np.all(np.isfinite(gradient))


@pytest.mark.parametrize(
    ("options", "known"),
    [({"form": "x"}, "with_positive"), ({"directions": "x"}, "mean"), ({"engine": "x"}, "chunked")],
)
def test_unknown_names_list_the_known_ones(options, known):
    left, right, groups = make_pairs(3, 2, 3)
    with pytest.raises(ValueError, match=known):
        softmax_loss(left, right, groups, **options)
