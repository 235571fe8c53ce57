"""The update on any number of devices, with frozen towers, and when it is skipped."""

import dataclasses
import functools

import jax
import numpy as np
import pytest

from configs import cxc
from tests import tiny_encoder as tiny
from xmodal.train.step import step


@pytest.fixture(scope="module")
def multitask():
    parts = tiny.make_parts(tiny.make_config())
    return parts, tiny.compile_step(parts, tiny.start(parts))


@pytest.fixture(scope="module")
def parts():
    """Of the image-only model."""
    return tiny.make_parts(tiny.make_image_config())


@pytest.fixture(scope="module")
def compiled(parts):
    return tiny.compile_step(parts, tiny.start(parts))


def slow_softmax(left, right, groups):
    """Cross-entropy with the positive in the denominator, one query at a time."""
    total = 0.0
    for queries, gallery in ((left, right), (right, left)):
        for i, query in enumerate(queries):
            others = [query @ g for j, g in enumerate(gallery) if groups[j] != groups[i]]
            positive = query @ gallery[i]
            total += np.logaddexp.reduce([positive, *others]) - positive
    return 0.5 * total / len(left)


def test_loss_is_the_weighted_sum_of_the_tasks(multitask):
    parts, compiled = multitask
    state, batch = tiny.start(parts), tiny.make_batch()

    @functools.partial(jax.jit, static_argnums=0)
    def run_tower(modality, inputs):
        return parts.model.embed(modality, state.params, state.model_state, inputs)[0].vector

    def embed(modality, inputs):
        return np.asarray(run_tower(modality, inputs), np.float64)

    image = embed("image", {"image": batch["image"]})
    first, second = (
        embed("text", {name: batch[name][:, c] for name in ("text_ids", "text_mask")})
        for c in range(2)
    )
    groups = batch["image_id"]
    i2t, t2t = slow_softmax(image, first, groups), slow_softmax(first, second, groups)
    _, scalars = tiny.run_step(parts, compiled, state, batch, 0)
    np.testing.assert_allclose(scalars["train/i2t/loss"], i2t, rtol=1e-4)
    np.testing.assert_allclose(scalars["train/t2t/loss"], t2t, rtol=1e-4)
    np.testing.assert_allclose(scalars["train/loss"], 0.7 * i2t + 0.4 * t2t, rtol=1e-4)
    assert scalars["train/learning_rate"] == 1.0


@pytest.fixture(scope="module")
def one_device():
    """Parameters after one step, and its scalars."""
    parts = tiny.make_parts(tiny.make_config(), devices=1)
    return updated(parts, tiny.compile_step(parts, tiny.start(parts)))


def updated(parts, compiled):
    after, scalars = tiny.run_step(parts, compiled, tiny.start(parts), tiny.make_batch(), 0)
    return tiny.copy(after.params), tiny.copy(scalars)


@pytest.mark.parametrize("devices", [2, 8])
def test_update_does_not_depend_on_the_device_count(multitask, one_device, devices):
    parts, compiled = multitask
    if devices != 8:
        parts = tiny.make_parts(tiny.make_config(), devices)
        compiled = tiny.compile_step(parts, tiny.start(parts))
    before = tiny.copy(tiny.start(parts).params)
    after, scalars = updated(parts, compiled)
    expected_after, expected_scalars = one_device
    for name, value in expected_scalars.items():
        np.testing.assert_allclose(scalars[name], value, rtol=1e-5, err_msg=name)

    # The rate is 1: the difference is the gradient.
    def compare(old, new, expected):
        np.testing.assert_allclose(new - old, expected - old, rtol=1e-3, atol=1e-6)

    jax.tree.map(compare, before, after, expected_after)
    norm = np.sqrt(
        sum(
            np.sum((new - old) ** 2)
            for old, new in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True)
        )
    )
    np.testing.assert_allclose(scalars["train/gradient_norm"], norm, rtol=1e-4)


def test_a_clamped_scale_is_that_of_a_free_update_brought_back():
    """Both of the model's similarity and of a task's own: CLIP's clamp after every update."""
    limit = np.log(1.2)

    def make(**limit):
        scale = {"name": "cosine", "learned_temperature": True, **limit}
        config = tiny.make_image_config()
        config.model.similarity = scale
        config.tasks.other = config.tasks.same.copy_and_resolve_references()
        config.tasks.other.similarity = scale
        parts = tiny.make_parts(config, devices=1)
        return parts, tiny.compile_step(parts, tiny.start(parts))

    def scales(state):
        other = state.params["tasks"]["other"]["similarity"]
        return np.array([state.params["similarity"]["log_scale"], other["log_scale"]])

    clamped, free = make(max_logit_scale=1.2), make()
    state, reached = tiny.start(clamped[0]), 0
    start = {"log_scale": jax.device_put(np.float32(0.1), state.step.sharding)}
    scaled = {"similarity": start, "tasks": {"other": {"similarity": start}}}
    state = jax.device_put(tiny.copy(dataclasses.replace(state, params=state.params | scaled)))
    for number in range(4):
        batch, fresh = tiny.make_batch(number), jax.device_put(tiny.copy(state))
        expected = scales(tiny.run_step(*free, fresh, batch, number)[0])
        state, _ = tiny.run_step(*clamped, state, batch, number)
        np.testing.assert_allclose(scales(state), np.clip(expected, 0, limit), rtol=1e-5, atol=1e-6)
        reached += int(np.any(expected > limit))
        assert np.all(scales(state) <= np.float32(limit))
    assert reached


def deep_config(freeze):
    """Text only, four layers of BERT under a small head."""
    config = tiny.make_config(freeze=freeze, tasks={"t2t": cxc.text_text()})
    config.model.image = config.data.image = None
    config.model.text.encoder.update({"depth": 4, "width": 32, "mlp_dim": 64})
    return config


def flops(compiled):
    return compiled.cost_analysis()["flops"]


def test_a_frozen_tower_stays_as_it_is_and_has_no_backward_pass():
    steps = {}
    for freeze in ((), ("text/encoder/",)):
        parts = tiny.make_parts(deep_config(freeze), devices=1)
        steps[freeze] = tiny.compile_step(parts, tiny.start(parts))
    state = tiny.start(parts)
    before = tiny.copy(state)
    assert set(before.frozen["text"]) == {"encoder"}
    assert set(before.params["text"]) == {"projection"}
    batch = tiny.make_batch()
    for number in range(3):
        state, _ = tiny.run_step(parts, steps["text/encoder/",], state, batch, number)
    assert int(state.step) == 3
    tiny.assert_identical(state.frozen, before.frozen)
    moved = jax.tree.map(lambda a, b: not np.array_equal(a, b), state.params, before.params)
    assert all(jax.tree.leaves(moved))

    @jax.jit
    def forward(params, inputs):
        return parts.model.embed("text", params, {"text": {}}, inputs)[0].vector

    text = {name: batch[name].reshape(32, -1) for name in ("text_ids", "text_mask")}
    forward_flops = flops(forward.lower(before.all_params(), text).compile())
    # A backward pass costs two forward passes.
    assert flops(steps[()]) > 2.5 * forward_flops
    assert flops(steps["text/encoder/",]) < 1.3 * forward_flops


def test_after_a_failure_the_state_stays(parts, compiled):
    state, _ = tiny.run_step(parts, compiled, tiny.start(parts), tiny.make_batch(0), 0)
    before = tiny.copy(state)
    broken = tiny.make_batch(1)
    broken["image"][3, 2] = np.inf
    state, scalars = tiny.run_step(parts, compiled, state, broken, 1)
    assert not np.isfinite(scalars["train/loss"])
    tiny.assert_identical(state, before)
    # Steps dispatched by the loop before it read the scalars.
    for number in (2, 3):
        state, _ = tiny.run_step(parts, compiled, state, tiny.make_batch(number), number)
        tiny.assert_identical(state, before)
    # The same step with a valid batch continues.
    state, _ = tiny.run_step(parts, compiled, state, tiny.make_batch(1), 1)
    assert int(state.step) == 2


def test_a_batch_that_is_skipped_moves_the_clocks_alone(parts):
    first = tiny.start(parts)
    compiled = tiny.compile_step(parts, first, skip_non_finite=True)
    state, _ = tiny.run_step(parts, compiled, first, tiny.make_batch(0), 0)
    before = tiny.copy(state)
    broken = tiny.make_batch(1)
    broken["image"][3, 2] = np.nan
    state, scalars = tiny.run_step(parts, compiled, state, broken, 1)
    assert not np.isfinite(scalars["train/loss"])
    assert (int(state.step), int(state.opt_state["count"])) == (2, 2)
    for item in ("params", "frozen", "model_state"):
        tiny.assert_identical(getattr(state, item), getattr(before, item))
    tiny.assert_identical(state.opt_state["moments"], before.opt_state["moments"])
    state, _ = tiny.run_step(parts, compiled, state, tiny.make_batch(2), 2)
    assert int(state.step) == 3
    pairs = zip(jax.tree.leaves(before.params), jax.tree.leaves(state.params), strict=True)
    assert not all(np.array_equal(old, new) for old, new in pairs)


def test_l2_is_added_to_the_loss_and_pulls_only_what_it_names(parts, compiled):
    l2 = step.L2Config("image/.*kernel$", 0.01)
    with_l2 = tiny.compile_step(parts, tiny.start(parts), l2=l2)
    before = tiny.copy(tiny.start(parts).params["image"]["projection"])
    outcomes = [
        tiny.run_step(parts, function, tiny.start(parts), tiny.make_batch(), 0)
        for function in (compiled, with_l2)
    ]
    (plain, plain_scalars), (pulled, scalars) = outcomes
    penalty = 0.01 * np.sum(before["kernel"] ** 2)
    np.testing.assert_allclose(scalars["train/l2"], penalty, rtol=1e-5)
    np.testing.assert_allclose(
        scalars["train/loss"], plain_scalars["train/loss"] + penalty, rtol=1e-5
    )
    plain, pulled = (outcome.params["image"]["projection"] for outcome in (plain, pulled))
    np.testing.assert_allclose(
        pulled["kernel"] - plain["kernel"], -0.02 * before["kernel"], rtol=1e-3, atol=1e-6
    )
    np.testing.assert_allclose(pulled["bias"], plain["bias"], atol=1e-6)
