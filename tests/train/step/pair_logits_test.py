"""Steps of a model with a cross-encoder: on any number of devices, and with frozen parts."""

import jax
import numpy as np
import pytest

from configs import base, cxc
from tests import tiny_encoder as tiny

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
@pytest.mark.parametrize("devices", [2, 8])
def test_values_and_gradients_do_not_depend_on_the_devices(one_device, devices):
    before, expected, expected_scalars = one_device
    _, found, scalars = run(make_config(), devices)
    for name, value in expected_scalars.items():
        np.testing.assert_allclose(scalars[name], value, rtol=1e-5, err_msg=name)

    def compare(old, new, other):
        np.testing.assert_allclose(new - old, other - old, rtol=1e-3, atol=2e-6)

    jax.tree.map(compare, before, found, expected)
