"""Layer-wise decay against an optimizer in which every layer is an array and group of its own."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from xmodal.core.config import read
from xmodal.core.tree_paths import leaves_by_path, unflatten
from xmodal.train.optimization.optimizer import OptimizerConfig, make_optimizer

DECAY, STEPS = 0.7, 3
# Path -> shape, and the number of layers above each layer, from the bottom up.
SHAPES = {
    "image/encoder/patches/kernel": ((2, 3), [5]),
    "image/encoder/layers/query/kernel": ((4, 3, 5), [4, 3, 2, 1]),
    "image/encoder/layers/query/bias": ((4, 5), [4, 3, 2, 1]),
    "image/encoder/norm/scale": ((5,), [0]),
    "image/projection/kernel": ((5, 2), [0]),
    "text/encoder/word_embeddings": ((7, 3), [4]),
    "text/encoder/lower_layers/query/kernel": ((1, 3, 2), [3]),
    "text/encoder/layers/query/kernel": ((2, 3, 2), [2, 1]),
    "text/head/layer1/query/kernel": ((2, 3), [0]),
    "similarity/log_scale": ((), [0]),
}


def make(params, groups):
    given = {
        "learning_rate": 0.1, "name": "adam", "weight_decay": {"rate": 0.3}, "groups": groups,
    }  # fmt: skip
    return make_optimizer(read(OptimizerConfig, "config.optimizer", given), 100, params)


def train(params, gradients, groups):
    optimizer = make(params, groups)
    state, update = optimizer.init(params), jax.jit(optimizer.update)
    for gradient in gradients:
        changes, state = update(gradient, state, params)
        params = optax.apply_updates(params, changes)
    return leaves_by_path(params)


def split(tree):
    """One array per layer of a stack, under its number of layers above."""
    parts = {}
    for path, array in leaves_by_path(tree).items():
        _, above = SHAPES[path]
        is_stack = "encoder" in path and "layers/" in path
        for layer, count in enumerate(above):
            parts[f"above{count}/{path}/{layer}"] = array[layer] if is_stack else array
    return unflatten(parts)


def test_equals_a_group_for_every_layer():
    rng = np.random.default_rng(0)
    params, *gradients = (
        unflatten(
            {p: jnp.array(rng.normal(size=shape), jnp.float32) for p, (shape, _) in SHAPES.items()}
        )
        for _ in range(STEPS + 1)
    )
    groups = {"all": {"pattern": ".*", "rate": 0.5, "layer_decay": DECAY}}
    found = split(unflatten(train(params, gradients, groups)))
    groups = {f"above{n}": {"pattern": f"^above{n}/", "rate": 0.5 * DECAY**n} for n in range(6)}
    expected = train(split(params), [split(gradient) for gradient in gradients], groups)
    assert len(expected) == 17
    for path, array in leaves_by_path(found).items():
        np.testing.assert_allclose(array, expected[path], rtol=1e-5, atol=1e-6, err_msg=path)
