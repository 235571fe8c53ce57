"""The optimiser's parts against plain Python, and its errors."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from configs import common
from xmodal.config import UserError
from xmodal.training import optimizer


def reference(norms, *, deviations, decay, floor):
    """Whether each of a sequence of gradient norms is skipped, one after the other."""
    seen, skipped = [], []
    for norm in norms:
        value = math.log(1 + norm)
        skip = False
        if seen:
            # Weights of the norms so far, the latest first, as shares of their sum.
            weights = [decay**age for age in range(len(seen))][::-1]
            mean = sum(w * v for w, v in zip(weights, seen, strict=True)) / sum(weights)
            square = sum(w * v * v for w, v in zip(weights, seen, strict=True)) / sum(weights)
            deviation = math.sqrt(max(square - mean**2, 1e-6))
            skip = norm > floor and value > mean + deviations * deviation
        if math.isfinite(value):
            seen.append(value)
        skipped.append(skip)
    return skipped


def run(rule, norms):
    """Feeds gradients of the given norms; returns which were zeroed, and the last state."""
    update = jax.jit(rule.update)
    direction = {"a": np.array([0.6, 0.0], np.float32), "b": np.array([-0.8], np.float32)}
    state = rule.init(direction)
    zeroed = []
    for norm in norms:
        gradient = jax.tree.map(lambda d, norm=norm: jnp.asarray(norm * d), direction)
        kept, state = update(gradient, state)
        zeroed.append(not any(np.any(leaf) for leaf in jax.tree.leaves(kept)))
        if not zeroed[-1]:
            jax.tree.map(np.testing.assert_array_equal, kept, gradient)
    return zeroed, state


def test_outliers_are_those_of_a_plain_loop():
    rng = np.random.default_rng(0)
    norms = np.exp(rng.normal(size=60)).round(3)
    norms[[0, 20, 21, 40]] = [5.0, 400.0, 0.05, 90.0]
    norms[50:] = 300.0  # A lasting change of scale is accepted after a while.
    options = {"deviations": 3.0, "decay": 0.9, "floor": 0.1}
    expected = reference(norms.tolist(), **options)
    found, state = run(optimizer.skip_outliers(**options), norms)
    assert found == expected
    assert int(state.skipped) == sum(expected)
    assert expected[20]
    assert expected[50]
    assert not any(expected[55:])


def test_released_rule_skips_beyond_four_deviations_of_what_it_saw():
    norms = [1.0, 1.2] * 30
    values = np.log1p(norms)
    # Decay 0.995 weighs 60 steps nearly alike.
    limit = math.exp(values.mean() + 4 * values.std()) - 1
    for last, skipped in [(limit * 0.99, False), (limit * 1.01, True)]:
        options = {"deviations": 4.0, "decay": 0.995, "floor": 0.1}
        assert reference([*norms, last], **options)[-1] is skipped
        assert run(optimizer.skip_outliers(), [*norms, last])[0][-1] is skipped


@pytest.mark.parametrize(
    ("norms", "skipped"),
    [
        ([1e6], [False]),  # Nothing was seen before the first.
        # Up to the floor all pass, however far above the others.
        ([0.01, 0.02, 0.0999, 0.5], [False, False, False, True]),
    ],
)
def test_first_and_small_norms_always_pass(norms, skipped):
    assert run(optimizer.skip_outliers(), norms)[0] == skipped


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_norms_that_are_not_finite_leave_the_moments_alone(bad):
    _, with_bad = run(optimizer.skip_outliers(), [1.0, 1.5, 1.2])
    rule = optimizer.skip_outliers()
    gradient = {"a": jnp.array([bad, 1.0])}
    _, after = rule.update(gradient, with_bad)
    for name in ("weight", "mean", "mean_square"):
        assert getattr(after, name) == getattr(with_bad, name)


def settings(**changes):
    return common.cxc_adam(0.5) | changes


@pytest.mark.parametrize(("step", "falls"), [(0, 0), (999, 0), (1000, 1), (1999, 1), (40_000, 40)])
def test_staircase_falls_by_a_thousandth_every_thousand_steps(step, falls):
    schedule = optimizer.make_schedule(settings(), total_steps=50_000)
    np.testing.assert_allclose(schedule(step), 0.5 * 0.999**falls, rtol=1e-5)


def test_cosine_rises_linearly_then_falls_to_its_end():
    options = {"name": "cosine", "warmup_steps": 10, "end_fraction": 0.1}
    schedule = optimizer.make_schedule(settings(schedule=options), total_steps=110)
    for step in range(0, 111, 5):
        if step < 10:
            expected = 0.5 * step / 10
        else:
            share = (1 + math.cos(math.pi * (step - 10) / 100)) / 2
            expected = 0.05 + 0.45 * share
        np.testing.assert_allclose(schedule(step), expected, rtol=1e-5)


def test_cosine_without_warmup_starts_at_its_peak():
    schedule = optimizer.make_schedule(settings(schedule={"name": "cosine"}), total_steps=100)
    np.testing.assert_allclose([schedule(0), schedule(100)], [0.5, 0], atol=1e-7)


def test_gradients_are_clipped_before_the_rule():
    rule = optimizer.make_optimizer(
        settings(name="sgd", options={}, schedule={"name": "constant"}, clip_norm=2.0), 10
    )
    params = {"w": jnp.zeros(2)}
    for gradient, clipped in [([6.0, 8.0], [1.2, 1.6]), ([0.3, 0.4], [0.3, 0.4])]:
        updates, _ = rule.update({"w": jnp.array(gradient)}, rule.init(params), params)
        np.testing.assert_allclose(updates["w"], -0.5 * np.array(clipped), rtol=1e-6)


def test_skipped_updates_are_counted_through_the_whole_chain():
    rule = optimizer.make_optimizer(settings(), 10)
    params = {"w": jnp.ones(1)}
    state = rule.init(params)
    for norm in (1.0, 100.0, 1.0):
        _, state = rule.update({"w": jnp.array([norm])}, state, params)
    assert int(optimizer.skipped_updates(state)) == 1
    bare = optimizer.make_optimizer(settings(skip_outliers=None), 10)
    assert optimizer.skipped_updates(bare.init(params)) is None


def test_adam_takes_the_options_of_the_config():
    rule = optimizer.make_optimizer(settings(skip_outliers=None, clip_norm=None), 10)
    reference_rule = optax.adam(0.5, b1=0.9, b2=0.999, eps=1e-8)
    params = {"w": jnp.array([1.0, -2.0])}
    state, reference_state = rule.init(params), reference_rule.init(params)
    for gradient in ([0.1, 3.0], [-1.0, 0.2]):
        gradient = {"w": jnp.array(gradient)}
        updates, state = rule.update(gradient, state, params)
        expected, reference_state = reference_rule.update(gradient, reference_state, params)
        np.testing.assert_allclose(updates["w"], expected["w"], rtol=1e-6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "adamm"}, r"'adamm' in config.optimizer.name; known: \['adam', 'adamw', 'sgd'\]"),
        ({"lr": 1}, r"\['lr'\] in config.optimizer; known: .*'learning_rate'"),
        ({"options": {"beta1": 1}}, r"\['beta1'\] in config.optimizer.options; known: .*'b1'"),
        ({"skip_outliers": {"sigma": 4}}, r"\['sigma'\] in .*skip_outliers; known: .*'deviations'"),
        ({"schedule": {"name": "steps"}}, r"'steps' in .*schedule.name; known: .*'staircase'"),
        (
            {"schedule": {"name": "staircase", "rate": 1}},
            r"schedule lacks .'every",
        ),
        ({"schedule": {"name": "constant", "rate": 1}}, r"\['rate'\] in config.optimizer.schedule"),
        (
            {"schedule": {"name": "cosine", "warmup_steps": 10}},
            "warmup_steps=10 leaves nothing of config.total_steps=10",
        ),
    ],
)
def test_mistakes_list_what_is_known(changes, message):
    with pytest.raises(UserError, match=message):
        optimizer.make_optimizer(settings(**changes), 10)
