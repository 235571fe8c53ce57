"""The rule that skips outlying updates against a plain loop."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax

from xmodal.train.optimization.watching_rules import SkipOutliersConfig, skip_outliers


def reference(norms, *, deviations=4.0, decay=0.995, floor=0.1):
    """Whether each of a sequence of gradient norms is skipped, computed one at a time."""
    entered, skipped = [], []
    for norm in norms:
        value = math.log(1 + max(norm, 0.01))
        # Weights of the values so far, latest last, as fractions of their sum.
        weights = np.array([decay**age for age in range(len(entered))][::-1])
        mean = deviation = 0.0
        if entered:
            mean = np.average(entered, weights=weights)
            deviation = math.sqrt(np.average(np.square(np.array(entered) - mean), weights=weights))
        limit = max(mean + deviations * max(deviation, 1e-3), math.log(1 + floor))
        skipped.append(bool(value > limit and (1 - decay) * weights.sum() > 0.75))
        entered.append(min(value, limit))
    return skipped


@functools.partial(jax.jit, static_argnums=0)
def follow(config, norms):
    """The last state, and the gradients of each step before and after the rule."""
    rule = skip_outliers(config)
    direction = {"a": jnp.array([0.6, 0.1]), "b": jnp.array([-0.8])}
    direction = jax.tree.map(lambda leaf: leaf / optax.tree.norm(direction), direction)

    def step(state, norm):
        gradient = jax.tree.map(lambda leaf: norm * leaf, direction)
        kept, state = rule.update(gradient, state)
        return state, (gradient, kept)

    return jax.lax.scan(step, rule.init(direction), norms)


def run(config, norms):
    """Feeds gradients of the given norms; returns which were zeroed, and the last state."""
    state, (gradients, kept) = jax.tree.map(np.asarray, follow(config, np.float32(norms)))
    zeroed = ~np.any(np.concatenate(jax.tree.leaves(kept), axis=1), axis=1)
    for before, after in zip(jax.tree.leaves(gradients), jax.tree.leaves(kept), strict=True):
        np.testing.assert_array_equal(after[~zeroed], before[~zeroed])
    return zeroed.tolist(), state


def test_outliers_are_those_of_a_plain_loop():
    rng = np.random.default_rng(0)
    norms = np.exp(rng.normal(size=130)).round(3)
    norms[[0, 20, 60, 61, 80]] = [5.0, 400.0, 900.0, 0.05, 90.0]
    norms[100:] = 300.0  # A lasting change of scale is accepted after a while.
    options = {"deviations": 3.0, "decay": 0.9, "floor": 0.1}
    expected = reference(norms.tolist(), **options)
    found, state = run(SkipOutliersConfig(**options), norms)
    assert found == expected
    assert int(state.skipped) == sum(expected)
    assert [i for i in (20, 60, 61, 80, 100, 129) if expected[i]] == [20, 60, 80, 100]
