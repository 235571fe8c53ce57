"""Slow copies of the towers."""

import jax.numpy as jnp
import numpy as np

from tests import tiny_encoder as tiny
from xmodal.train.step.step import follow


def make_task(rate):
    loss = {"name": "momentum_softmax", "inputs": ("image_id",), "module": {"rate": rate}}
    return {"views": ("image", "caption_0"), "loss": loss}


def test_copies_start_as_the_towers_and_follow_them():
    copies = {"image": {"w": jnp.array([1.0, -2.0])}}
    params = {"image": {"w": jnp.array([3.0, 4.0])}, "similarity": {}}
    first = follow(copies, params, 0.9, jnp.int32(0))
    np.testing.assert_array_equal(first["image"]["w"], params["image"]["w"])
    later = follow(copies, params, 0.9, jnp.int32(1))
    np.testing.assert_allclose(later["image"]["w"], [1.2, -1.4], rtol=1e-6)


def test_copies_start_as_the_towers_although_the_first_batch_is_skipped():
    config = tiny.make_config(tasks={"i2t": make_task(0.5) | {"weight": 1.0}})
    config.tasks.i2t.loss.module.size = 8
    parts = tiny.make_parts(config, 1)
    state = tiny.start(parts)  # Whose copies are zero.
    towers, batch = tiny.copy(state.params), tiny.make_batch()
    batch["image"][3, 2] = np.nan
    compiled = tiny.compile_step(parts, state, skip_non_finite=True)
    state, scalars = tiny.run_step(parts, compiled, state, batch, 0)
    assert not np.isfinite(scalars["train/loss"])
    for modality in ("image", "text"):
        tiny.assert_identical(state.params[modality], towers[modality])
        tiny.assert_identical(state.model_state["momentum"][modality], towers[modality])
    assert np.all(tiny.copy(state.model_state["tasks"]["i2t"]["module"]["queue"]["left"]) == 0)
