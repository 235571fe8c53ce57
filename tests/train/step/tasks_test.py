import jax
import numpy as np

from configs import base
from xmodal.models import Embedding
from xmodal.similarity import make_similarity
from xmodal.train.step import task_losses, tasks


def task(left="image", right="caption_0", **changes):
    return base.task(left, right, "softmax") | changes


def compute(config, views, ids, *, params=None, batch=None, step=0, similarity="dot"):
    """The sum and the scalars of a config's tasks, for views given as vectors."""
    made = tasks.make_tasks(config)
    similarity = make_similarity(
        {"name": similarity} if isinstance(similarity, str) else similarity
    )

    @jax.jit
    def run(views, batch, params, step):
        total, _, scalars = task_losses.compute_losses(
            made, views, batch, params, {}, similarity=similarity, seed=0, step=step
        )
        return total, scalars

    views = {name: Embedding(np.asarray(vectors, np.float32)) for name, vectors in views.items()}
    columns = {"image_id": np.asarray(ids, np.int32)} | (batch or {})
    return run(views, columns, params or {}, np.int32(step))


def test_weighted_sum_by_hand():
    """Two orthogonal pairs: each query scores 2 with its partner and 0 with its negative."""
    views = {"image": [[2, 0], [0, 2]], "caption_0": np.eye(2), "caption_1": np.zeros((2, 2))}
    doubled = base.task("image", "caption_0", "softmax", directions="sum")
    config = {
        "i2t": task(weight=3.0),
        "t2t": task("caption_0", "caption_1", weight=0.5),
        "sum": doubled,
    }
    total, scalars = compute(config, views, [5, 6])
    matched, unknown = np.log(1 + np.exp(-2)), np.log(2)
    np.testing.assert_allclose(scalars["i2t/loss"], matched, rtol=1e-6)
    np.testing.assert_allclose(scalars["t2t/loss"], unknown, rtol=1e-6)
    np.testing.assert_allclose(scalars["sum/loss"], 2 * matched, rtol=1e-6)
    np.testing.assert_allclose(total, 3 * matched + 0.5 * unknown + 2 * matched, rtol=1e-6)
    assert scalars["i2t/accuracy"] == 1.0
    assert scalars["t2t/accuracy"] == 0.0


def test_captions_of_one_image_are_negatives_only_by_pair():
    views = {"image": np.eye(3), "caption_0": np.ones((3, 3))}
    # Rows 0 and 2 show the same image, so each has one negative; row 1 has two.
    total, _ = compute({"i2t": task()}, views, [4, 9, 4])
    np.testing.assert_allclose(total, (np.log(2) + np.log(3) + np.log(2)) / 3, rtol=1e-6)
    total, _ = compute({"i2t": task(negatives="pair")}, views, [4, 9, 4])
    np.testing.assert_allclose(total, np.log(3), rtol=1e-6)


def loss(**changes):
    return task()["loss"] | changes


def test_a_task_reads_the_text_columns_of_its_own_caption():
    config = task("image", "caption_1", negatives="none")
    config["loss"] = loss(
        name="relation_bce", inputs=["relations", "text_ids"], module={"relations": 1}
    )
    (made,) = tasks.make_tasks({"t": config})
    batch = {"relations": np.zeros((2, 1)), "text_ids": np.arange(12).reshape(2, 3, 2)}
    columns = made.read_columns(batch)
    np.testing.assert_array_equal(columns["text_ids"], [[2, 3], [8, 9]])
    np.testing.assert_array_equal(columns["relations"], batch["relations"])
