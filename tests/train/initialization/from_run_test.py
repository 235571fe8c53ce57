"""Starting from another run's weights; both runs have the tiny multitask model."""

import dataclasses

import jax
import numpy as np
import pytest

from configs import cxc
from tests import tiny_encoder as tiny
from xmodal.core.errors import UserError
from xmodal.core.tree_paths import leaves_by_path
from xmodal.train.folder import checkpoints, run_folder
from xmodal.train.initialization import from_run
from xmodal.train.sections import BestCheckpointConfig, CheckpointConfig, InitConfig
from xmodal.train.tree import replace_arrays


def make_state(*, seed, freeze=(), hidden=(), width=8, optimizer=None, momentum=False):
    """A state with moments, a skip rule, running statistics and parameters of a task."""
    optimizer = optimizer or cxc.skipping_adam(1e-3)
    config = tiny.make_config(freeze=list(freeze), optimizer=optimizer)
    config.model.image.encoder.hidden = hidden
    config.model.image.projection.update({"width": width, "batch_norm": True})
    config.tasks.t2t.similarity = {"name": "cosine", "learned_temperature": True}
    if momentum:
        config.tasks.i2t.loss = {"name": "momentum_softmax", "inputs": ("image_id",)}
    return tiny.start(tiny.make_parts(config), seed)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """(folder, state) of a run at step 30, with moments and counters that are not zero."""
    folder = str(tmp_path_factory.mktemp("source"))
    rng = np.random.default_rng(0)

    def used(leaf):
        if np.issubdtype(leaf.dtype, np.integer):
            return jax.device_put(np.full(leaf.shape, 30, leaf.dtype), leaf.sharding)
        return jax.device_put(rng.random(leaf.shape, np.float32), leaf.sharding)

    state = make_state(seed=1)
    state = dataclasses.replace(
        state,
        step=used(state.step),
        model_state=jax.tree.map(used, state.model_state),
        opt_state=jax.tree.map(used, state.opt_state),
    )
    saver = checkpoints.Checkpoints(folder, CheckpointConfig(), BestCheckpointConfig("m"))
    saver.save(state)
    saver.close()
    run_folder.save_config(folder, tiny.make_config())
    return folder, state


def settings(source, **changes):
    options = {"run": source[0], "step": "latest", "include": (".*",), "optimizer": False}
    return InitConfig(**(options | changes))


def take_weights(fresh, source):
    state = replace_arrays(fresh, from_run.load_weights(fresh, source))
    if source.optimizer:
        moments = from_run.load_moments(fresh, source)
        state = dataclasses.replace(state, opt_state=state.opt_state | {"moments": moments})
    return state


def test_all_weights_come_and_nothing_else(source):
    fresh = make_state(seed=2)
    state = take_weights(fresh, settings(source))
    tiny.assert_identical(state.params, source[1].params)
    assert set(state.params) == {"image", "text", "tasks"}
    tiny.assert_identical(state.model_state, source[1].model_state)
    assert jax.tree.leaves(state.model_state)
    tiny.assert_identical(state.opt_state, fresh.opt_state)
    assert int(state.step) == 0
    same = jax.tree.map(lambda new, old: new.sharding == old.sharding, state, fresh)
    assert all(jax.tree.leaves(same))


@pytest.mark.parametrize(
    "include",
    [["text/"], ["text/encoder", "image/"], ["tasks/t2t"], ["image/projection/batch_norm"]],
)
def test_only_what_a_pattern_names_comes(source, include):
    fresh = make_state(seed=2)
    state = take_weights(fresh, settings(source, include=tuple(include)))
    chosen = 0
    for part in ("params", "model_state"):
        taken, before, after = (leaves_by_path(getattr(s, part)) for s in (source[1], fresh, state))
        for path, leaf in after.items():
            # Running statistics are loaded with the part to which they belong.
            included = path.replace("/batch_stats/", "/").startswith(tuple(include))
            np.testing.assert_array_equal(leaf, (taken if included else before)[path])
            chosen += included
    assert 0 < chosen < len(leaves_by_path(state.params))


def test_moments_come_along_and_counters_start_anew(source):
    fresh = make_state(seed=2)
    state = take_weights(fresh, settings(source, optimizer=True))
    new, other = state.opt_state, source[1].opt_state
    tiny.assert_identical(new["moments"], other["moments"])
    (counts,) = {int(c) for c in jax.tree.leaves(new["moments"]) if c.dtype == np.int32}
    assert counts == 30  # of the bias correction
    assert int(state.step) == int(new["count"]) == 0
    assert int(other["count"]) == 30
    # The schedule and the skip rule are those of a new run.
    for name in ("count", "scheduled_rate", "outliers"):
        tiny.assert_identical(new[name], fresh.opt_state[name])
    assert any(np.any(leaf != 0) for leaf in jax.tree.leaves(other["outliers"]))


def test_an_array_of_another_shape(source):
    wider = make_state(seed=2, width=6)
    message = r"does not fit the model(?s:.)*image/projection/bias: \(6,\) here, \(8,\) there"
    with pytest.raises(UserError, match=message):
        take_weights(wider, settings(source))
