"""Starting from another run's weights; both runs have the tiny multitask model."""

import dataclasses

import jax
import numpy as np
import pytest
import tiny_encoder as tiny

from configs import common
from xmodal.config import UserError
from xmodal.training import checkpoints, init_from, optimizer
from xmodal.training.state import flatten


def make_state(*, seed, freeze=(), **image):
    config = tiny.make_config(freeze=list(freeze), optimizer=common.cxc_adam(1e-3))
    config.model.image.update(image)
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
        state, step=used(state.step), opt_state=jax.tree.map(used, state.opt_state)
    )
    saver = checkpoints.Checkpoints(folder, {"every": 1, "keep_last": 1, "best_metric": "m"})
    saver.save(state)
    saver.close()
    checkpoints.save_config(folder, tiny.make_config())
    return folder, state


def settings(source, **changes):
    return {"run": source[0], "step": "latest", "include": [".*"], "optimizer": False} | changes


def test_all_weights_come_and_nothing_else(source):
    fresh = make_state(seed=2)
    state = init_from.init_from(fresh, settings(source))
    tiny.assert_identical(state.params, source[1].params)
    tiny.assert_identical(state.opt_state, fresh.opt_state)
    assert int(state.step) == 0
    homes = jax.tree.map(lambda new, old: new.sharding == old.sharding, state, fresh)
    assert all(jax.tree.leaves(homes))


@pytest.mark.parametrize("include", [["text/"], ["text/bert", "image/"]])
def test_only_what_a_pattern_names_comes(source, include):
    fresh = make_state(seed=2)
    state = init_from.init_from(fresh, settings(source, include=include))
    taken, before, after = (flatten(s.params) for s in (source[1], fresh, state))
    for path, leaf in after.items():
        included = path.startswith(tuple(include))
        np.testing.assert_array_equal(leaf, (taken if included else before)[path])
    assert any(not path.startswith(tuple(include)) for path in after)


def test_moments_come_along_and_counters_start_anew(source):
    fresh = make_state(seed=2)
    state = init_from.init_from(fresh, settings(source, optimizer=True))
    (skip, _, (adam, schedule)), (other_skip, _, (other_adam, other_schedule)) = (
        s.opt_state for s in (state, source[1])
    )
    tiny.assert_identical(adam, other_adam)
    assert int(adam.count) == 30
    assert int(state.step) == 0
    assert int(schedule.count) == 0
    assert int(other_schedule.count) == 30
    assert isinstance(skip, optimizer.SkipOutliersState)
    tiny.assert_identical(skip, fresh.opt_state[0])
    assert float(other_skip.weight) > 0


def test_weights_may_be_frozen_from_now_on(source):
    state = init_from.init_from(make_state(seed=2, freeze=["text/bert/"]), settings(source))
    tiny.assert_identical(state.all_params(), source[1].params)
    assert set(state.frozen["text"]) == {"bert"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"include": ["text/", "txet/"]}, "config.init_from.include: 'txet/' matches no parameter"),
        ({"run": "runs/none"}, "'runs/none' is no run of xmodal.main"),
        ({"step": 7}, r"has no checkpoint of step 7; it has \[30\]"),
        ({"optimiser": True}, r"\['optimiser'\] in config.init_from; known: .*'optimizer'"),
        (
            {"include": ["text/"], "optimizer": True},
            "leaves out image/projection/bias.*config.init_from.optimizer=False",
        ),
    ],
)
def test_mistakes_are_named(source, changes, message):
    with pytest.raises(UserError, match=message):
        init_from.init_from(make_state(seed=2), settings(source, **changes))


def test_an_array_that_the_other_run_lacks(source):
    deeper = make_state(seed=2, hidden=(8,))
    with pytest.raises(UserError, match="has no image/hidden1/bias; narrow config.init_from.inc"):
        init_from.init_from(deeper, settings(source))
    state = init_from.init_from(deeper, settings(source, include=["text/"]))
    tiny.assert_identical(state.params["text"], source[1].params["text"])


def test_an_array_of_another_shape(source):
    wider = make_state(seed=2, features=6)
    message = r"image/projection/kernel is \(6, 8\) here but \(5, 8\) in "
    with pytest.raises(UserError, match=message):
        init_from.init_from(wider, settings(source))
