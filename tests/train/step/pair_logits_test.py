"""Steps of a model with a cross-encoder: on any number of devices, and with frozen parts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from configs import base, cxc
from tests import tiny_encoder as tiny
from tests.benchmarks.collectives import count_collectives
from tests.benchmarks.program import read_program
from xmodal.core import mesh as mesh_lib
from xmodal.core.errors import UserError
from xmodal.models import Embedding, Features, Mode
from xmodal.models.cross_encoders import make_cross_encoder
from xmodal.train.step import step, tasks
from xmodal.train.step.task_losses import make_pair_logits

HEAD = {
    "name": "matching_head", "width": 8, "depth": 1, "heads": 2, "mlp_dim": 12, "dropout": 0.2,
}  # fmt: skip


def make_config(**changes):
    match = base.task("image", "caption_1", "matching", weight=0.5)
    config = tiny.make_config(tasks={"i2t": cxc.image_text(0.7), "match": match}, **changes)
    config.model.cross_encoder = HEAD
    return config


def run(config, devices):
    """The parameters before and after a step at rate 1, and its scalars."""
    parts = tiny.make_parts(config, devices)
    state = tiny.start(parts)
    compiled = tiny.compile_step(parts, state)
    before = tiny.copy(state.params)
    after, scalars = tiny.run_step(parts, compiled, state, tiny.make_batch(), 0)
    return before, tiny.copy(after.params), tiny.copy(scalars)


@pytest.fixture(scope="module")
def one_device():
    return run(make_config(), 1)


@pytest.mark.slow
def test_the_loss_reaches_the_encoders():
    """The towers get no other gradient, since the draws have none."""
    config = make_config()
    del config.tasks.i2t
    config.model.image.encoder.hidden = (7,)
    before, after, _ = run(config, 1)
    for side in ("image", "text"):
        one, other = before[side], after[side]
        changes = jax.tree.map(lambda x, y: np.abs(x - y).max(), one, other)
        assert max(jax.tree.leaves(changes["encoder"])) > 1e-4
        assert max(jax.tree.leaves(changes["projection"])) == 0


@pytest.mark.slow
@pytest.mark.parametrize("devices", [2, 8])
def test_values_and_gradients_do_not_depend_on_the_devices(one_device, devices):
    before, expected, expected_scalars = one_device
    _, found, scalars = run(make_config(), devices)
    for name, value in expected_scalars.items():
        np.testing.assert_allclose(scalars[name], value, rtol=1e-5, err_msg=name)

    def compare(old, new, other):
        np.testing.assert_allclose(new - old, other - old, rtol=1e-3, atol=2e-6)

    jax.tree.map(compare, before, found, expected)


def compile_gradient(devices, steps, items, **sizes):
    """The gradient of the logits of drawn images with the texts of a batch, compiled."""
    mesh = mesh_lib.make_mesh(jax.devices()[:devices])
    scorer = make_cross_encoder("scorer", HEAD | sizes, None)
    rows, everywhere = mesh_lib.batch_sharded(mesh), mesh_lib.replicated(mesh)
    features = Features(jax.ShapeDtypeStruct((items, 6, 8), jnp.float32, sharding=rows))
    positions = jax.ShapeDtypeStruct((items,), jnp.int32, sharding=rows)
    params = jax.eval_shape(lambda x: scorer.init(jax.random.key(0), {}, x, x), features)

    def compute(params, images, texts, drawn):
        views = (Embedding(x.tokens[:, 0], extras={"features": x}) for x in (images, texts))
        given = {"mode": Mode.TRAIN, "key": jax.random.key(0), "mesh": mesh, "steps": steps}
        logits = make_pair_logits(scorer, {"cross_encoder": params}, *views, **given)
        own = jnp.arange(items)[:, None]
        return jnp.sum(logits(drawn, own, jax.random.key(1)) ** 2)

    params = jax.tree.map(lambda x: x.update(sharding=everywhere), params)
    gradient = jax.jit(jax.grad(compute, argnums=(0, 1)))
    return gradient.lower(params, features, features, positions).compile()


@pytest.mark.slow
def test_devices_exchange_the_features_of_images_and_not_their_keys_and_values():
    """Which each layer has."""
    gathered = [
        count_collectives(read_program(compile_gradient(2, 1, 64, depth=depth).as_text()))
        for depth in (1, 2)
    ]
    assert gathered[0]["all-gather"] == gathered[1]["all-gather"]
    assert gathered[0]["all-gather"].bytes > 4 * 64 * 6 * 8  # The features.


def test_a_frozen_scorer_drops_nothing_and_stays():
    config = make_config(freeze=["cross_encoder/"])
    parts = tiny.make_parts(config, 1)
    state = tiny.start(parts)
    assert state.params["cross_encoder"] == {}
    assert jax.tree.leaves(state.frozen["cross_encoder"])
    kept = tiny.copy(state.frozen)
    compiled = tiny.compile_step(parts, state)
    after, scalars = tiny.run_step(parts, compiled, state, tiny.make_batch(), 0)
    tiny.assert_identical(after.frozen, kept)
    config.model.cross_encoder.dropout = 0.0
    parts = tiny.make_parts(config, 1)
    state = tiny.start(parts)
    compiled = tiny.compile_step(parts, state)
    _, others = tiny.run_step(parts, compiled, state, tiny.make_batch(), 0)
    assert scalars["train/match/loss"] == others["train/match/loss"]


def test_task_and_scorer_need_each_other():
    config = make_config()
    parts = tiny.make_parts(config, 1)
    step.check_sides(parts.model, parts.tasks)
    with pytest.raises(UserError, match="trained by no task"):
        step.check_sides(parts.model, tasks.make_tasks({"i2t": config.tasks.i2t}))
    with pytest.raises(UserError, match=r"config\.model\.cross_encoder, which is None"):
        step.check_sides(tiny.make_parts(tiny.make_config(), 1).model, parts.tasks)
    for wrong in (("caption_0", "image"), ("image", "image"), ("caption_0", "caption_1")):
        with pytest.raises(UserError, match="takes an image and a text"):
            tasks.make_tasks({"match": base.task(*wrong, "matching")})
