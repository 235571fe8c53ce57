"""Image-text matching against a slow loop, and the draws of its negatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xmodal.core import mesh as mesh_lib
from xmodal.losses import LOSSES
from xmodal.losses.matching import draw_negatives

SIZE = 13


def compute(name, views, ids, table, make_context, **options):
    """A loss of logits in a table, its scalars, and the pairs (image, text) that it asked for."""

    @jax.jit
    def run(views, ids, table):
        asked = []

        def look_up(image_at, text_at, key):
            del key
            rows = jnp.arange(SIZE) if image_at is None else image_at
            asked.append((rows, text_at))
            return table[rows[:, None], text_at]

        context = make_context(ids, key=jax.random.key(5), pair_logits=look_up)
        return *LOSSES[name].function(*views, context, **options), asked

    loss, scalars, asked = run(views, ids, table)
    rows = np.concatenate([np.repeat(rows, texts.shape[1]) for rows, texts in asked])
    return (
        loss,
        scalars,
        list(zip(rows, np.concatenate([t.ravel() for _, t in asked]), strict=True)),
    )


@pytest.mark.parametrize("groups", ["some", "own", "one"])
def test_loss_is_the_mean_over_the_pairs_that_were_drawn(make_pairs, make_context, groups):
    rng = np.random.default_rng(0)
    ids = {"some": rng.integers(0, 6, SIZE), "own": np.arange(SIZE), "one": np.full(SIZE, 3)}[
        groups
    ]
    table = rng.normal(size=(SIZE, SIZE, 2)).astype(np.float32)
    loss, scalars, asked = compute("matching", make_pairs(SIZE), ids, table, make_context)

    images, texts = np.transpose(asked)
    own = np.arange(SIZE)
    assert images[: 2 * SIZE].tolist() == np.repeat(own, 2).tolist()
    assert texts[: 2 * SIZE : 2].tolist() == texts[2 * SIZE :].tolist() == own.tolist()
    losses, right = [], []
    for number, (image, text) in enumerate(asked):
        is_match = number < 2 * SIZE and number % 2 == 0
        if not is_match and all(ids == ids[image if number < 2 * SIZE else text]):
            continue  # There is no negative to draw.
        assert is_match or ids[image] != ids[text]
        odds = table[image, text].astype(np.float64)
        losses.append(np.logaddexp(*odds) - odds[int(is_match)])
        right.append(odds.argmax() == int(is_match))
    assert len(losses) == (SIZE if groups == "one" else 3 * SIZE)
    np.testing.assert_allclose(loss, np.mean(losses), rtol=1e-5)
    np.testing.assert_allclose(scalars["accuracy"], np.mean(right), rtol=1e-6)


@pytest.mark.parametrize("groups", ["some", "one"])
def test_pair_softmax_is_the_mean_over_images(make_pairs, make_context, groups):
    rng = np.random.default_rng(1)
    ids = rng.integers(0, 6, SIZE) if groups == "some" else np.full(SIZE, 3)
    table = rng.normal(size=(SIZE, SIZE, 1)).astype(np.float32)
    loss, scalars, asked = compute(
        "pair_softmax", make_pairs(SIZE), ids, table, make_context, negatives=4
    )
    if groups == "one":  # There is no negative to draw.
        assert loss == 0
        return
    asked = np.array(asked).reshape(SIZE, 5, 2)
    losses, right = [], []
    for image, pairs in enumerate(asked):
        assert set(pairs[:, 0]) == {image} == {pairs[0, 1]}
        assert all(ids[text] != ids[image] for text in pairs[1:, 1])
        scores = np.array([float(table[image, text, 0]) for text in pairs[:, 1]])
        losses.append(np.log(np.exp(scores).sum()) - scores[0])
        right.append(scores[0] > scores[1:].max())
    assert len(np.unique(asked[:, 1:, 1])) > SIZE / 2
    np.testing.assert_allclose(loss, np.mean(losses), rtol=1e-5)
    np.testing.assert_allclose(scalars["accuracy"], np.mean(right), rtol=1e-6)


def test_draws_do_not_depend_on_the_number_of_devices():
    rng = np.random.default_rng(2)
    logits = rng.normal(size=(16, 16)).astype(np.float32)
    is_negative = rng.random((16, 16)) < 0.7
    found = []
    for devices in (1, 2, 4, 8):
        mesh = mesh_lib.make_mesh(jax.devices()[:devices])
        rows = mesh_lib.batch_sharded(mesh)
        placed = jax.device_put(logits, rows), jax.device_put(is_negative, rows)
        draw = jax.jit(lambda x, y, mesh=mesh: draw_negatives(jax.random.key(1), x, y, mesh))
        found.append(np.asarray(draw(*placed)[0]))
    assert len(np.unique(found[0])) > 3
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)
