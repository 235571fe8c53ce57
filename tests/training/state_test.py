import jax
import numpy as np
import optax
import pytest
import tiny_encoder as tiny

from xmodal import mesh as mesh_lib
from xmodal.config import UserError
from xmodal.training import preflight, state

PARAMS = {
    "image": {"projection": {"kernel": 1, "bias": 2}},
    "text": {"bert": {"layers": {"kernel": 3}, "word": 4}, "projection": {"kernel": 5}},
}


def test_flatten_names_leaves_by_path():
    flat = state.flatten(PARAMS)
    assert flat == {
        "image/projection/kernel": 1,
        "image/projection/bias": 2,
        "text/bert/layers/kernel": 3,
        "text/bert/word": 4,
        "text/projection/kernel": 5,
    }
    assert state.unflatten(flat) == PARAMS


@pytest.mark.parametrize(
    ("patterns", "frozen"),
    [
        ([], set()),
        (["text/bert/"], {3, 4}),
        (["text/bert/word", "image"], {1, 2, 4}),
        ([".*kernel$"], {1, 3, 5}),
    ],
)
def test_partition_by_path_and_back(patterns, frozen):
    trained, kept = state.partition(PARAMS, patterns)
    assert set(state.flatten(kept).values()) == frozen
    assert set(state.flatten(trained).values()) == {1, 2, 3, 4, 5} - frozen
    assert state.merge(trained, kept) == PARAMS


def test_a_tower_without_parameters_or_with_frozen_ones_only_stays():
    params = PARAMS | {"image": {}}
    trained, frozen = state.partition(params, ["text/bert/"])
    assert trained["image"] == {}
    assert state.merge(trained, frozen) == params
    trained, frozen = state.partition(PARAMS, ["image/"])
    assert trained["image"] == {}
    assert state.merge(trained, frozen) == PARAMS


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        # Matched from the start of the path.
        (["bert/"], r"config.freeze pattern 'bert/' matches no parameter; .*'text/bert'"),
        (["text/bert/", "txet"], "'txet' matches no parameter"),
        ([".*"], r"config.freeze=\['\.\*'\] freezes every parameter"),
        (["image/", "text/"], "freezes every parameter"),
    ],
)
def test_patterns_that_cannot_be_meant(patterns, message):
    with pytest.raises(UserError, match=message):
        state.partition(PARAMS, patterns)


@pytest.fixture(scope="module")
def created():
    """States created on one and on eight devices, from one config with a frozen tower."""
    config = tiny.make_config(freeze=["text/bert/"], seed=5)
    config.optimizer.name = "adam"
    states = []
    for devices in (1, 8):
        parts = tiny.make_parts(config, devices)
        init = preflight.state_init(parts)
        states.append(state.create_state(init, parts.mesh, tiny.REPLICATED))
    return states


def test_a_state_is_the_same_on_any_number_of_devices(created):
    one, eight = created
    tiny.assert_identical(one, eight)
    assert int(eight.step) == 0
    assert {len(leaf.sharding.device_set) for leaf in jax.tree.leaves(eight)} == {8}


def test_optimiser_state_exists_for_trained_parameters_only(created):
    _, eight = created
    assert set(eight.frozen["text"]) == {"bert"}
    moments = optax.tree_utils.tree_get(eight.opt_state, "mu")
    assert jax.tree.structure(moments) == jax.tree.structure(eight.params)
    assert "bert" not in moments["text"]
    assert set(eight.all_params()["text"]) == {"bert", "projection"}


def test_a_state_is_created_where_the_rules_want_it():
    def init():
        key = jax.random.key(0)
        params = {"w": jax.random.normal(key, (1024, 512))}
        return state.TrainState(jax.numpy.int32(0), params, {}, {}, ())

    mesh = mesh_lib.make_mesh()
    whole = state.create_state(init, mesh, tiny.REPLICATED)
    split = state.create_state(init, mesh, [("params/", "fsdp"), (".*", "replicated")])
    assert split.params["w"].addressable_shards[0].data.shape == (128, 512)
    assert whole.params["w"].addressable_shards[0].data.shape == (1024, 512)
    np.testing.assert_array_equal(split.params["w"], whole.params["w"])
