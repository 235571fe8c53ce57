"""Random parameters without compiling an initializer, and towers in one line."""

import jax
import numpy as np
import pytest

from xmodal.models import Devices, make_tower


@pytest.fixture
def random_variables():
    """`(params, model_state)` of a tower or dual encoder; variances are positive."""

    def make(model, example_inputs, seed=0, scale=0.1):
        rng = np.random.default_rng(seed)

        def fill(path, leaf):
            noise = scale * rng.normal(size=leaf.shape).astype(np.float32)
            return np.abs(noise) + 0.5 if path[-1].key in ("var", "scale") else noise

        shapes = jax.eval_shape(model.init, jax.random.key(0), example_inputs)
        return jax.tree_util.tree_map_with_path(fill, shapes)

    return make


@pytest.fixture
def tower():
    """`tower("bert", width=8)` has the head "mean" and no projection by default."""

    def make(encoder, *, head=None, projection=None, devices=1, **keywords):
        section = {"encoder": {"name": encoder, **keywords}, "head": head or {"name": "mean"}}
        if projection is not None:
            section["projection"] = {"width": projection}
        return make_tower("tower", section, Devices(devices))

    return make
