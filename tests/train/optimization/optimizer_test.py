"""The whole optimizer: order of its parts, groups, starting steps, state."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from xmodal.core import mesh as mesh_lib
from xmodal.core.config import read
from xmodal.core.tree_paths import leaves_by_path
from xmodal.train.optimization import optimizer

SHAPES = {
    "image": {"encoder": {"kernel": (3, 4), "scale": (4,)}, "projection": {"kernel": (4, 2)}},
    "text": {"encoder": {"word_embeddings": (5, 2)}, "head": {}},
    "similarity": {"match_scale": (), "match_shift": ()},
}


def settings(**changes):
    return {"learning_rate": 0.5, "name": "sgd"} | changes


def make(params=None, total_steps=100, **changes):
    config = read(optimizer.OptimizerConfig, "config.optimizer", settings(**changes))
    return optimizer.make_optimizer(config, total_steps, tree(0) if params is None else params)


def tree(seed, scale=1.0):
    """Random arrays shaped like a model in which part of a tower has no parameters."""
    rng = np.random.default_rng(seed)
    return jax.tree.map(
        lambda shape: jnp.array(scale * rng.normal(size=shape), jnp.float32),
        SHAPES,
        is_leaf=lambda node: isinstance(node, tuple),
    )


def follow(rule, params, gradients):
    """Returns the updates of each step, and the states including the first."""
    update = jax.jit(rule.update)
    states, all_updates = [rule.init(params)], []
    for gradient in gradients:
        updates, state = update(gradient, states[-1], params)
        params = optax.apply_updates(params, updates)
        states.append(state)
        all_updates.append(leaves_by_path(updates))
    return all_updates, states


def norm(arrays):
    return math.sqrt(sum(float(np.sum(np.square(np.array(array, np.float64)))) for array in arrays))


def test_groups_may_be_left_out_of_clipping_and_have_their_own_rate():
    groups = {
        "similarity": {"pattern": "^similarity/", "clip": False},
        "image": {"pattern": "^image/encoder", "rate": 0.1},
        "late": {"pattern": "image/", "rate": 3.0},
    }
    gradient = tree(1, scale=10)
    ((updates,), _) = follow(make(groups=groups, clip_norm=2.0), tree(0), [gradient])
    flat = leaves_by_path(gradient)
    image = [path for path in flat if path.startswith("image/encoder")]
    shared = [path for path in flat if not path.startswith("similarity/")]
    for path, value in flat.items():
        scale = 2.0 / norm(flat[p] for p in shared) if path in shared else 1.0
        rate = 0.05 if path in image else 1.5 if path.startswith("image") else 0.5
        np.testing.assert_allclose(updates[path], -rate * scale * value, rtol=1e-5)


FROZEN = {
    "encoder": {"pattern": "image/encoder", "frozen_until": 3, "rate": 0.2},
    "words": {"pattern": ".*word_embeddings", "frozen_until": 5, "clip": False},
}


@pytest.mark.parametrize("name", ["adam", "adamp", "sgd"])
def test_a_frozen_group_is_a_fresh_optimizer_at_its_first_step(name):
    common = {
        "name": name,
        "options": {"momentum": 0.9} if name == "sgd" else {"b1": 0.7},
        "clip_norm": 1.0,
        "weight_decay": {"rate": 0.1},
    }
    schedule = {"name": "piecewise", "steps": {6: 0.1}}
    gradients = [tree(seed) for seed in range(1, 10)]
    found, states = follow(make(groups=FROZEN, schedule=schedule, **common), tree(0), gradients)

    def only(arrays, start):
        # The groups clipped with the encoder must be present, those with other starts must not.
        keep = {0: ("projection", "match"), 3: ("encoder/k", "encoder/s"), 5: ("word",)}[start]
        return {p: v for p, v in leaves_by_path(arrays).items() if any(k in p for k in keep)}

    for start, group in [(0, None), (3, "encoder"), (5, "words")]:
        rule = read(optimizer.OptimizerConfig, "config.optimizer", settings(**common)).rule()
        rule = rule.make(lambda path: 0.1)
        params = only(tree(0), start)
        state, update = rule.init(params), jax.jit(rule.update)
        for step, gradient in enumerate(gradients):
            if step < start:
                for path in params:
                    assert not np.any(found[step][path])
                continue
            together = only(gradient, 0) | (only(gradient, 3) if step >= 3 else {})
            scale = 1.0 if group == "words" else min(1, 1 / norm(together.values()))
            clipped = {path: scale * value for path, value in only(gradient, start).items()}
            directions, state = update(clipped, state, params)
            rate = 0.5 * (0.1 if step >= 6 else 1) * (0.2 if group == "encoder" else 1)
            for path, direction in directions.items():
                np.testing.assert_allclose(
                    found[step][path], -rate * direction, rtol=2e-4, atol=1e-6
                )
            params = {path: value - rate * directions[path] for path, value in params.items()}
    for start in (3, 5):
        entries = [jax.tree.leaves(state["moments"][f"from_{start}"]) for state in states]
        assert entries[0]
        for entry in entries[1 : start + 1]:
            jax.tree.map(np.testing.assert_array_equal, entry, entries[0])
        last = zip(entries[start + 1], entries[0], strict=True)
        assert any(np.any(new != old) for new, old in last)


def test_a_metric_without_improvement_halves_the_next_update():
    changes = {"plateau": {"metric": "coco5k/rsum", "mode": "max", "patience": 0, "factor": 0.5}}
    config = read(optimizer.OptimizerConfig, "config.optimizer", settings(**changes))
    rule, params = make(**changes), tree(0)
    home = mesh_lib.replicated(mesh_lib.make_mesh())
    state = jax.device_put(rule.update(tree(1), rule.init(params), params)[1], home)
    state = optimizer.observe_metrics(config, state, {"coco5k/rsum": 300.0})
    assert float(optimizer.learning_rate(state)) == 0.5
    # An evaluation counts once.
    assert optimizer.observe_metrics(config, state, {"coco5k/rsum": 299.0}) is state
    state = jax.device_put(rule.update(tree(1), state, params)[1], home)
    assert optimizer.observe_metrics(config, state, {"cxc/rsum": 1.0}) is state
    state = optimizer.observe_metrics(config, state, {"coco5k/rsum": 299.0, "cxc/rsum": 1.0})
    assert float(optimizer.learning_rate(state)) == 0.25
    assert all(leaf.sharding == home for leaf in jax.tree.leaves(state))
    updates, _ = rule.update(tree(1), state, params)
    for path, value in leaves_by_path(tree(1)).items():
        np.testing.assert_allclose(leaves_by_path(updates)[path], -0.25 * value, rtol=1e-6)
