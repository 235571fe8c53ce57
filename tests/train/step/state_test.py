import jax
import numpy as np
import pytest

from configs import base
from tests import tiny_encoder as tiny
from xmodal.core import mesh as mesh_lib
from xmodal.train.step import state
from xmodal.train.tree import flatten


@pytest.fixture(scope="module")
def created():
    """States created on one and on eight devices, from one config with a frozen tower."""
    config = tiny.make_config(freeze=["text/encoder/"], seed=5)
    config.optimizer.name = "adam"
    states = []
    for devices in (1, 8):
        parts = tiny.make_parts(config, devices)
        states.append(state.create_state(parts.init_state, parts.state_shapes, parts.key_data))
    return states


@pytest.mark.slow
def test_a_state_is_the_same_on_any_number_of_devices(created):
    one, eight = created
    tiny.assert_identical(one, eight)
    assert int(eight.step) == 0
    assert {len(leaf.sharding.device_set) for leaf in jax.tree.leaves(eight)} == {8}


def test_optimizer_state_exists_for_trained_parameters_only(created):
    _, eight = created
    assert set(eight.frozen["text"]) == {"encoder"}
    paths = _paths(eight.opt_state["moments"])
    for path in flatten(eight.params):
        assert sum(found.endswith(path) for found in paths) == 2, path
    assert not any("text/encoder" in path for path in paths)
    assert set(eight.all_params()["text"]) == {"encoder", "projection"}


def _paths(found):
    leaves = jax.tree_util.tree_leaves_with_path(found)
    return [jax.tree_util.keystr(keys, simple=True, separator="/") for keys, _ in leaves]


def test_parameters_of_losses_and_similarities_are_part_of_the_state():
    config = tiny.make_config()
    config.model.similarity = {"name": "cosine", "learned_temperature": True, "temperature": 0.1}
    task = base.task("image", "caption_0", "softmax")
    task["similarity"] = {"name": "dot", "learned_temperature": True}
    config.tasks = {"i2t": task}
    config.data.captions_per_image = 1
    parts = tiny.make_parts(config)
    params, _ = parts.shapes
    assert set(params) == {"image", "text", "similarity", "tasks"}
    assert set(params["tasks"]) == {"i2t"}
    assert set(params["tasks"]["i2t"]) == {"similarity"}


def test_a_state_is_created_where_the_rules_want_it():
    def init():
        key = jax.random.key(0)
        params = {"w": jax.random.normal(key, (1024, 512))}
        return state.TrainState(jax.numpy.int32(0), params, {}, {}, ())

    def create(rules):
        shapes = state.with_shardings(jax.eval_shape(init), mesh_lib.make_mesh(), rules)
        return state.create_state(init, shapes)

    whole = create(tiny.REPLICATED)
    split = create([("params/", "fsdp"), (".*", "replicated")])
    assert split.params["w"].addressable_shards[0].data.shape == (128, 512)
    assert whole.params["w"].addressable_shards[0].data.shape == (1024, 512)
    np.testing.assert_array_equal(split.params["w"], whole.params["w"])
