"""Lengths in steps and in epochs."""

import pytest

from xmodal.core.errors import UserError
from xmodal.train.optimization import run_lengths
from xmodal.train.run_config import choose_warmup


def test_lengths_in_epochs_become_steps_everywhere():
    config = {
        "total_steps": "3 epochs",
        "name": "three epochs of training",
        "optimizer": {"schedule": {"name": "piecewise", "steps": {"1.5 epochs": 0.1, "7": 0.5}}},
        "tasks": {"i2t": {"weight": {"schedule": "linear", "from": 0, "to": 1, "end": "1 epoch"}}},
        "lists": [{"frozen_until": "2 epochs"}, ({"every": "0 epochs"}, None)],
        "log_every": "7",
    }
    assert run_lengths.resolve_epochs(config, 11) == {
        "total_steps": 33,
        "name": "three epochs of training",
        "optimizer": {"schedule": {"name": "piecewise", "steps": {"16": 0.1, "7": 0.5}}},
        "tasks": {"i2t": {"weight": {"schedule": "linear", "from": 0, "to": 1, "end": 11}}},
        "lists": [{"frozen_until": 22}, ({"every": 0}, None)],
        "log_every": 7,
    }


@pytest.mark.parametrize(
    ("warmup", "total_steps", "steps"),
    [
        ("up to 40", 320, 40),
        ("up to 40", 119, 39),
        ("up to 3 epochs", "6 epochs", 20),
        ("up to 0.01 epochs", 100, 0),
        (40, 10, 40),  # Set by the user: an error of the schedule.
        ("up to 40", "auto", 40),
    ],
)
def test_a_default_warmup_is_at_most_a_third_of_the_run(warmup, total_steps, steps):
    config = {"total_steps": total_steps, "schedule": {"warmup_steps": warmup}}
    found = run_lengths.resolve_epochs(config, 10)
    assert choose_warmup(found["schedule"]["warmup_steps"], found["total_steps"]) == steps


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"every": "3 epocs"}, "config.every is '3 epocs'; .* string like '3 epochs'"),
        ({"every": "0.01 epochs"}, "config.every is '0.01 epochs', less than one step: .* has 10"),
    ],
)
def test_mistakes_in_epochs_are_named(config, message):
    with pytest.raises(UserError, match=message):
        run_lengths.resolve_epochs(config, 10)
