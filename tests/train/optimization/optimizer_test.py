"""The whole optimizer: order of its parts, groups, starting steps, state."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from xmodal.core import mesh as mesh_lib
from xmodal.core.config import read
from xmodal.core.errors import UserError
from xmodal.train.optimization import optimizer
from xmodal.train.tree import flatten

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
        all_updates.append(flatten(updates))
    return all_updates, states


def norm(arrays):
    return math.sqrt(sum(float(np.sum(np.square(np.array(array, np.float64)))) for array in arrays))


def test_groups_are_clipped_by_their_own_norm_and_have_their_own_rate():
    groups = {
        "similarity": {"pattern": "^similarity/", "clip": False},
        "image": {"pattern": "^image/encoder", "clip_norm": 3.0, "rate": 0.1},
        "late": {"pattern": "image/", "rate": 3.0},
    }
    gradient = tree(1, scale=10)
    ((updates,), _) = follow(make(groups=groups, clip_norm=2.0), tree(0), [gradient])
    flat = flatten(gradient)
    image = [path for path in flat if path.startswith("image/encoder")]
    shared = ["image/projection/kernel", "text/encoder/word_embeddings"]
    for path, value in flat.items():
        scale = 1.0
        for limit, paths in ((3.0, image), (2.0, shared)):
            if path in paths:
                scale = limit / norm(flat[p] for p in paths)
        rate = 0.05 if path in image else 1.5 if path.startswith("image") else 0.5
        np.testing.assert_allclose(updates[path], -rate * scale * value, rtol=1e-5)


@pytest.mark.parametrize("name", ["adamw", "sgd", "adamp"])
def test_decay_goes_by_path_and_with_the_rate_of_the_group(name):
    options = {
        "name": name,
        "groups": {"image": {"pattern": "^image/", "rate": 0.1}},
        # No gradient here is that close to orthogonal to its weight.
        "options": {"delta": 1e-6} if name == "adamp" else {},
    }
    decayed = make(weight_decay={"rate": 0.3, "pattern": ".*kernel$"}, **options)
    plain = make(**options | {"name": name.replace("adamw", "adam")})
    params, gradient = tree(0), tree(1)
    ((found,), _), ((bare,), _) = (follow(rule, params, [gradient]) for rule in (decayed, plain))
    for path, value in flatten(params).items():
        rate = 0.5 * (0.1 if path.startswith("image") else 1)
        lost = rate * 0.3 * value if path.endswith("kernel") else 0
        np.testing.assert_allclose(bare[path] - found[path], lost, rtol=1e-4, atol=1e-6)


FROZEN = {
    "encoder": {"pattern": "image/encoder", "frozen_until": 3, "rate": 0.2},
    "words": {"pattern": ".*word_embeddings", "frozen_until": 5, "clip_norm": 0.5},
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
        return {p: v for p, v in flatten(arrays).items() if any(k in p for k in keep)}

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
            if group == "words":
                limit, together = 0.5, only(gradient, 5)
            else:
                together = only(gradient, 0) | (only(gradient, 3) if step >= 3 else {})
                limit = 1.0
            scale = min(1, limit / norm(together.values()))
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


def test_gradients_of_frozen_parameters_do_not_count_as_outliers():
    skip = {"decay": 0.9}  # Starts after 14 norms.
    groups = {"encoder": {"pattern": "image/encoder", "frozen_until": 50}}
    gradients = [tree(1)] * 21
    gradients[20] = tree(1) | {
        "image": {
            "encoder": jax.tree.map(lambda leaf: 1e6 * leaf, tree(1)["image"]["encoder"]),
            "projection": tree(1)["image"]["projection"],
        }
    }
    for changes, skipped in [({"groups": groups}, 0), ({}, 1)]:
        _, states = follow(make(skip_outliers=skip, **changes), tree(0), gradients)
        assert int(optimizer.skipped_updates(states[-1])) == skipped
    assert optimizer.skipped_updates(make().init(tree(0))) is None


EVERYTHING = {
    "name": "adamp",
    "groups": FROZEN | {"similarity": {"pattern": "similarity", "clip": False}},
    "clip_norm": 1.0,
    "skip_outliers": {},
    "weight_decay": {"rate": 0.1, "pattern": ".*kernel"},
    "plateau": {"metric": "coco5k/rsum", "mode": "max", "patience": 0, "factor": 0.5},
    "schedule": {"name": "cosine", "warmup_steps": 2},
}


def test_a_metric_without_improvement_halves_the_next_update():
    config = read(optimizer.OptimizerConfig, "config.optimizer", settings(**EVERYTHING))
    changes = {"plateau": EVERYTHING["plateau"]}
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
    for path, value in flatten(tree(1)).items():
        np.testing.assert_allclose(flatten(updates)[path], -0.25 * value, rtol=1e-6)


def test_the_evaluation_before_the_first_update_does_not_count():
    plateau = {"metric": "rsum", "mode": "min", "factor": 0.5, "patience": 2}
    config = read(optimizer.OptimizerConfig, "config.optimizer", settings(plateau=plateau))
    rule, params = make(plateau=plateau), tree(0)
    state, rates = rule.init(params), []
    # As PVSE's code: the rate is halved each time patience + 1 evaluations are above the first
    # trained one, which is the lowest.
    for rsum in (1.0, 100.0, 101.0, 102.0, 103.0, 104.0, 105.0, 106.0):
        state = optimizer.observe_metrics(config, state, {"rsum": rsum})
        rates.append(float(optimizer.learning_rate(state)))
        _, state = rule.update(tree(1), state, params)
    assert rates == [0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.125]


def test_learning_rate_is_that_of_the_update_that_follows():
    rule = make(schedule={"name": "linear", "warmup_steps": 4}, total_steps=9)
    found, states = follow(rule, tree(0), [tree(1)] * 8)
    for updates, state in zip(found, states[:-1], strict=True):
        rate = float(optimizer.learning_rate(state))
        np.testing.assert_allclose(
            updates["image/encoder/kernel"], -rate * tree(1)["image"]["encoder"]["kernel"]
        )
    assert [float(optimizer.learning_rate(state)) for state in states[:5]] == [
        0, 0.125, 0.25, 0.375, 0.5,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "adamm"}, r"'adamm' in config.optimizer.name; known: .*'adam', 'adamp', 'adamw'"),
        ({"name": "adamw"}, "name='adamw' needs config.optimizer.weight_decay"),
        # Patterns are matched from the start of a path.
        ({"weight_decay": {"rate": 0.1, "pattern": "kernel"}}, "'kernel' matches no parameter"),
        (
            {"groups": {"a": {"pattern": "image"}, "b": {"pattern": "image/encoder/kernel"}}},
            r"groups.b.pattern=.* only parameters of the groups before it",
        ),
        (
            {"groups": {"a": {"pattern": "image", "frozen_until": 100}}},
            "frozen_until=100, which leaves nothing of config.total_steps=100",
        ),
    ],
)
def test_mistakes_are_named(changes, message):
    with pytest.raises(UserError, match=message):
        make(**changes)
