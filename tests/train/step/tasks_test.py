import jax
import jax.numpy as jnp
import numpy as np
import pytest

from configs import base
from xmodal.core.errors import UserError
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


def test_a_task_may_compare_by_another_similarity():
    views = {"image": 7 * np.eye(2), "caption_0": 0.2 * np.eye(2)}
    total, _ = compute({"i2t": task()}, views, [0, 1], similarity="cosine")
    np.testing.assert_allclose(total, np.log(1 + np.exp(-1)), rtol=1e-5)
    other = task(similarity={"name": "dot"})
    total, _ = compute({"i2t": other}, views, [0, 1], similarity="cosine")
    np.testing.assert_allclose(total, np.log(1 + np.exp(-1.4)), rtol=1e-5)


@pytest.mark.parametrize("engine", ["dense", "chunked"])
@pytest.mark.parametrize(
    ("names", "rises"), [(["softmax"], True), (["triplet"], False), (["softmax", "triplet"], True)]
)
def test_a_scale_at_its_limit_has_the_gradient_of_all_losses_together(names, rises, engine):
    """Positives and negatives, tiles and tasks pull in different directions; their sum decides."""
    views = np.random.default_rng(3).standard_normal((2, 12, 6))
    views = {"image": views[0], "caption_0": views[0] + 0.5 * views[1]}
    options = {"engine": engine, "chunk_size": 4}
    config = {
        name: base.task(
            "image", "caption_0", name, **options, **{"triplet": {"mining": "all"}}.get(name, {})
        )
        for name in names
    }
    cosine = {"name": "cosine", "temperature": 0.1, "learned_temperature": True}

    def gradient(**limit):
        def total(log_scale):
            params = {"similarity": {"log_scale": log_scale}}
            return compute(config, views, range(12), params=params, similarity=cosine | limit)[0]

        return jax.jit(jax.grad(total))

    free, limited = gradient(), gradient(max_logit_scale=10.0)
    at_limit = jnp.float32(np.log(10.0) + 1e-6)
    assert (free(at_limit) < 0) == rises
    expected = 0.0 if rises else free(at_limit)
    np.testing.assert_allclose(limited(at_limit), expected, rtol=1e-5)
    below = jnp.float32(np.log(9.9))
    np.testing.assert_allclose(limited(below), free(below), rtol=1e-5)


def test_a_weight_may_be_a_schedule_of_the_step():
    views = {"image": np.eye(2), "caption_0": np.eye(2)}
    weight = {"schedule": "linear", "from": 0, "to": 2, "start": 0, "end": 10}
    plain, _ = compute({"i2t": task()}, views, [0, 1])
    for step, factor in ((0, 0), (5, 1), (20, 2)):
        total, scalars = compute({"i2t": task(weight=weight)}, views, [0, 1], step=step)
        np.testing.assert_allclose(total, factor * plain, rtol=1e-6)
        assert scalars["i2t/weight"] == factor


def test_a_loss_with_parameters_owns_them_under_the_name_of_its_task():
    config = task(negatives="none")
    config["loss"] = {
        "name": "relation_bce", "options": {}, "inputs": ["relations"], "reads": [],
        "module": {"relations": 3},
    }  # fmt: skip
    made = tasks.make_tasks({"coherence": config})
    rng = np.random.default_rng(0)
    views = {name: rng.normal(size=(5, 4)).astype(np.float32) for name in ("image", "caption_0")}
    labels = jnp.asarray(rng.integers(0, 2, size=(5, 3)), jnp.int32)
    params, state = made[0].init(
        jax.random.key(0),
        {name: Embedding(jnp.asarray(vectors)) for name, vectors in views.items()},
        {"relations": labels},
        {},
    )
    assert set(params) == {"module"}
    assert state == {}
    total, _ = compute(
        {"coherence": config}, views, np.arange(5),
        params={"tasks": {"coherence": params}}, batch={"relations": labels},
    )  # fmt: skip
    module = params["module"]
    logits = views["image"] @ module["left"] + views["caption_0"] @ module["right"] + module["bias"]
    expected = np.mean(np.logaddexp(0, logits) - labels * logits)
    np.testing.assert_allclose(total, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("views", "captions", "sides"),
    [
        ([("image", "caption_0")], [0], {"image", "text"}),
        ([("caption_0", "caption_1")], [0, 1], {"text"}),
        ([("caption_4", "image"), ("caption_10", "caption_4")], [4, 10], {"image", "text"}),
        ([("image", "image")], [], {"image"}),
    ],
)
def test_views_of_the_tasks(views, captions, sides):
    made = tasks.make_tasks({f"task{k}": task(*pair) for k, pair in enumerate(views)})
    assert tasks.caption_indices(made) == captions
    assert tasks.sides(made) == sides


def loss(**changes):
    return task()["loss"] | changes


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "config.tasks is empty"),
        ({"t": task("caption")}, "config.tasks.t.views has 'caption', which is not a view"),
        ({"t": task(views=["image"])}, r"config.tasks.t.views=\['image'\], but .* takes 2 view"),
        ({"t": task(loss=loss(name="hinge"))}, "'hinge' in config.tasks.t.loss.name; known: "),
        ({"t": task(weight=-1)}, "config.tasks.t.weight is -1"),
        (
            {"t": task("caption_0", "caption_1", loss=loss(inputs=["text_ids"]))},
            r"config.tasks.t.loss.inputs names 'text_ids', .* of one caption, but .* are two",
        ),
        ({"t": task(negatives="none")}, "compares items with others of the batch"),
        ({"t": task(loss=loss(options={"frm": 2}))}, r"\['frm'\] in config.tasks.t.loss.options"),
        ({"t": task(loss=loss(module={"relations": 2}))}, "'softmax' has no parameters"),
    ],
)
def test_mistakes_list_the_known_names(config, message):
    with pytest.raises(UserError, match=message):
        tasks.make_tasks(config)


@pytest.mark.parametrize("name", ["concept_divergence", "language_model"])
@pytest.mark.parametrize("views", [("caption_0", "image"), ("caption_0", "caption_1")])
def test_losses_that_differ_for_swapped_views_take_the_image_first(name, views):
    # A language model that starts from a caption's own vector would only copy it.
    own = loss(name=name, options={})
    with pytest.raises(UserError, match=rf"{name}' takes an image and a text, in this order"):
        tasks.make_tasks({"t": task(*views, negatives="none", loss=own)})


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


def test_a_module_that_reads_an_unknown_parameter():
    loss = {
        "name": "language_model",
        "inputs": ("text_ids", "text_mask"),
        "reads": ("text/encoder/tabel",),
    }
    config = {"words": {"views": ("caption_0",), "loss": loss, "negatives": "none"}}
    (words,) = tasks.make_tasks(config)
    batch = dict.fromkeys(loss["inputs"], jnp.ones((2, 1, 5), jnp.int32))
    towers = {"text": {"encoder": {"table": jnp.ones((7, 4))}}}
    message = r"'text/encoder/tabel' in config\.tasks\.words\.loss\.reads; .*'text/encoder/table'\?"
    with pytest.raises(UserError, match=message):
        words.init(jax.random.key(0), {"caption_0": Embedding(jnp.ones((2, 4)))}, batch, towers)
