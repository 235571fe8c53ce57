import jax
import numpy as np
import pytest

from tests import tiny_encoder as tiny
from xmodal.core import mesh as mesh_lib
from xmodal.train import tree


@pytest.mark.slow
def test_a_state_is_the_same_on_any_number_of_devices():
    config = tiny.make_config(freeze=["text/encoder/"], seed=5)
    config.optimizer.name = "adam"
    states = []
    for devices in (1, 8):
        parts = tiny.make_parts(config, devices)
        states.append(tree.create_state(parts.init_state, parts.state_shapes, parts.key_data))
    one, eight = states
    tiny.assert_identical(one, eight)
    assert int(eight.step) == 0
    assert {len(leaf.sharding.device_set) for leaf in jax.tree.leaves(eight)} == {8}


def test_a_state_is_created_where_the_rules_want_it():
    def init():
        key = jax.random.key(0)
        params = {"w": jax.random.normal(key, (1024, 512))}
        return tree.TrainState(jax.numpy.int32(0), params, {}, {}, ())

    def create(rules):
        shapes = tree.with_shardings(jax.eval_shape(init), mesh_lib.make_mesh(), rules)
        return tree.create_state(init, shapes)

    whole = create(tiny.REPLICATED)
    split = create([("params/", "fsdp"), (".*", "replicated")])
    assert split.params["w"].addressable_shards[0].data.shape == (128, 512)
    assert whole.params["w"].addressable_shards[0].data.shape == (1024, 512)
    np.testing.assert_array_equal(split.params["w"], whole.params["w"])
