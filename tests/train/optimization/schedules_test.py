"""Schedules against plain Python and torch."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xmodal.core.errors import UserError
from xmodal.train.optimization import schedules


def rates(section, steps, *, peak=0.5, total_steps=1000):
    schedule = jax.jit(schedules.make_schedule(section, peak, total_steps))
    return [float(schedule(step)) for step in steps]


def plain(section, step, *, peak=0.5, total_steps=1000):
    """The learning rate by the definition of each schedule, one step at a time."""
    options = {key: value for key, value in section.items() if key != "name"}
    warmup = options.pop("warmup_steps", 0)
    rate = peak * min(step / warmup, 1) if warmup else peak
    end, every = options.get("end_fraction", 0), options.get("every", 1)
    held = step - step % every
    progress = min(max(held - warmup, 0) / (total_steps - warmup), 1)
    match section["name"]:
        case "cosine":
            return rate * (end + (1 - end) * (1 + math.cos(math.pi * progress)) / 2)
        case "linear":
            return rate * (1 - (1 - end) * progress)
        case "staircase":
            for _ in range(step // every):
                rate *= options["rate"]
        case "piecewise":
            for boundary, factor in options["steps"].items():
                rate *= factor if step >= int(boundary) else 1
    return rate


@pytest.mark.parametrize(
    "section",
    [
        {"name": "constant", "warmup_steps": 7},
        {"name": "cosine", "warmup_steps": 10, "end_fraction": 0.1},
        {"name": "cosine", "every": 33},
        {"name": "linear", "warmup_steps": 100, "every": 50},
        {"name": "staircase", "rate": 0.1, "every": 333, "warmup_steps": 5},
        {"name": "piecewise", "steps": {"600": 0.5, "90": 0.1}, "warmup_steps": 50},
    ],
)
def test_each_schedule_is_its_definition_at_every_step(section):
    steps = [0, 1, 4, 5, 9, 10, 29, 30, 33, 65, 66, 89, 90, 99, 100, 332, 333, 600, 999, 1000, 1200]
    expected = [plain(section, step) for step in steps]
    np.testing.assert_allclose(rates(section, steps), expected, rtol=2e-5, atol=1e-7)


RAMP = {"schedule": "linear", "from": 2, "to": -1.0, "start": 100, "end": 500}
STAIRS = {"schedule": "piecewise", "values": {"500": 3, "0": 1.5, "20": -2}}


def test_numbers_follow_the_step():
    resolve = jax.jit(lambda step: (schedules.resolve(RAMP, step), schedules.resolve(STAIRS, step)))
    for step in (0, 19, 20, 100, 101, 300, 499, 500, 501, 10_000):
        ramp = 2 - 3 * min(max(step - 100, 0), 400) / 400
        stairs = 3 if step >= 500 else -2 if step >= 20 else 1.5
        found = resolve(jnp.int32(step))
        np.testing.assert_allclose(found, [ramp, stairs], rtol=1e-6)
        assert all(each.shape == () and each.dtype == jnp.float32 for each in found)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"schedule": "cubic"}, r"'cubic' in margin.schedule; known: \['linear', 'piecewise'\]"),
        ({"schedule": "piecewise", "values": {5: 1}}, r"margin.values has no value for step 0"),
    ],
)
def test_mistakes_in_a_schedule_of_a_number_are_named(value, message):
    with pytest.raises(UserError, match=message):
        schedules.values("margin", value)
