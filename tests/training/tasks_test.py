import jax.numpy as jnp
import numpy as np
import pytest

from xmodal.config import UserError
from xmodal.training import tasks


def task(**changes):
    return {"left": "image", "right": "caption_0", "loss": "softmax", "weight": 1.0} | changes


def test_weighted_sum_by_hand():
    """Two orthogonal pairs: each query scores 2 with its partner and 0 with its negative."""
    views = {
        "image": jnp.array([[2.0, 0.0], [0.0, 2.0]]),
        "caption_0": jnp.eye(2),
        "caption_1": jnp.zeros((2, 2)),
    }
    made = tasks.make_tasks(
        {
            "i2t": task(weight=3.0),
            "t2t": task(left="caption_0", right="caption_1", weight=0.5),
            "sum": task(weight=1.0, options={"directions": "sum"}),
        }
    )
    groups = jnp.array([5, 6])
    total, scalars = tasks.compute_losses(made, views, groups, "dot")
    matched, unknown = np.log(1 + np.exp(-2)), np.log(2)
    np.testing.assert_allclose(scalars["i2t/loss"], matched, rtol=1e-6)
    np.testing.assert_allclose(scalars["t2t/loss"], unknown, rtol=1e-6)
    np.testing.assert_allclose(scalars["sum/loss"], 2 * matched, rtol=1e-6)
    np.testing.assert_allclose(total, 3 * matched + 0.5 * unknown + 2 * matched, rtol=1e-6)
    assert scalars["i2t/accuracy"] == 1.0
    assert scalars["t2t/accuracy"] == 0.0


def test_captions_of_one_image_are_not_each_others_negatives():
    views = {"image": jnp.eye(3), "caption_0": jnp.ones((3, 3))}
    made = tasks.make_tasks({"i2t": task()})
    # Rows 0 and 2 show one image: each of them has one negative, row 1 has two.
    total, _ = tasks.compute_losses(made, views, jnp.array([4, 9, 4]), "dot")
    np.testing.assert_allclose(total, (np.log(2) + np.log(3) + np.log(2)) / 3, rtol=1e-6)


def test_similarity_is_that_of_the_model():
    views = {"image": 7 * jnp.eye(2), "caption_0": 0.2 * jnp.eye(2)}
    made = tasks.make_tasks({"i2t": task()})
    total, _ = tasks.compute_losses(made, views, jnp.arange(2), "cosine")
    np.testing.assert_allclose(total, np.log(1 + np.exp(-1)), rtol=1e-5)
    with pytest.raises(UserError, match=r"'l2' in .*similarity; known: \['cosine', 'dot'\]"):
        tasks.compute_losses(made, views, jnp.arange(2), "l2")


@pytest.mark.parametrize(
    ("views", "captions", "image"),
    [
        ([("image", "caption_0")], [0], True),
        ([("caption_0", "caption_1")], [0, 1], False),
        ([("caption_4", "image"), ("caption_10", "caption_4")], [4, 10], True),
        ([("image", "image")], [], True),
    ],
)
def test_what_the_tasks_look_at(views, captions, image):
    config = {f"task{k}": task(left=left, right=right) for k, (left, right) in enumerate(views)}
    made = tasks.make_tasks(config)
    assert tasks.caption_indices(made) == captions
    assert tasks.needs_image(made) == image


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "config.tasks is empty"),
        ({"t": task(left="caption")}, "config.tasks.t.left='caption' is no view .* caption_0"),
        ({"t": task(right="images")}, "config.tasks.t.right='images' is no view"),
        ({"t": task(loss="hinge")}, r"'hinge' in config.tasks.t.loss; known: \['softmax'"),
        ({"t": task(wieght=1)}, r"\['wieght'\] in config.tasks.t; known: .*'weight'"),
        ({"t": {"left": "image", "loss": "softmax"}}, r"config.tasks.t lacks .'right', 'weight'"),
        (
            {"t": task(options={"temprature": 2.0})},
            r"\['temprature'\] in config.tasks.t.options; known: .*'temperature'",
        ),
    ],
)
def test_mistakes_list_what_is_known(config, message):
    with pytest.raises(UserError, match=message):
        tasks.make_tasks(config)
