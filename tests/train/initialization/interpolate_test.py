"""Weights averaged over two runs of the tiny model."""

import dataclasses

import jax
import numpy as np
import pytest

from tests import tiny_encoder as tiny
from xmodal.train import start
from xmodal.train.folder import checkpoints, run_folder
from xmodal.train.sections import BestCheckpointConfig, CheckpointConfig
from xmodal.train.tree import flatten


def make_parts(freeze=(), width=8, **init_from):
    config = tiny.make_image_config(freeze=list(freeze))
    config.model.image.projection.update({"width": width, "batch_norm": True})
    config.model.similarity = {"name": "cosine", "learned_temperature": True}
    config.init_from.optimizer = False
    config.init_from.update(init_from)
    return tiny.make_parts(config)


def save(folder, seed, **changes):
    """The state of a run at step 3, and its folder."""
    state = tiny.start(make_parts(**changes), seed)
    rng = np.random.default_rng(seed)
    state = dataclasses.replace(
        state,
        step=jax.device_put(np.int32(3), state.step.sharding),
        model_state=jax.tree.map(
            lambda leaf: jax.device_put(rng.random(leaf.shape, np.float32), leaf.sharding),
            state.model_state,
        ),
    )
    saver = checkpoints.Checkpoints(str(folder), CheckpointConfig(), BestCheckpointConfig("m"))
    saver.save(state)
    saver.close()
    run_folder.save_config(str(folder), tiny.make_image_config())
    return state


@pytest.mark.parametrize("alpha", [0.3, 1.0])
def test_every_array_is_the_weighted_mean(alpha, tmp_path):
    first, second = (
        save(tmp_path / "a", 1),
        save(tmp_path / "b", 2, freeze=["image/projection/kernel"]),
    )
    interpolate = {"run": str(tmp_path / "b"), "step": "latest", "alpha": alpha}
    parts = make_parts(run=str(tmp_path / "a"), step="latest", interpolate=interpolate)
    found = start.starting_state(parts, str(tmp_path / "new"))
    assert int(found.step) == 0
    a, b, mixed = (
        flatten(each.all_params()) | flatten(each.model_state) for each in (first, second, found)
    )
    assert a.keys() == b.keys() == mixed.keys()
    assert {"similarity/log_scale", "image/batch_stats/projection/batch_norm/var"} <= mixed.keys()
    for path, array in mixed.items():
        expected = (1 - alpha) * np.float64(a[path]) + alpha * np.float64(b[path])
        np.testing.assert_allclose(array, expected, rtol=1e-6, atol=1e-7, err_msg=path)
        if alpha in (0, 1):
            np.testing.assert_array_equal(array, (b if alpha else a)[path])
