"""Lengths in steps and in epochs."""

import pytest

from xmodal.core.errors import UserError
from xmodal.train.optimization import run_lengths


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
    ("config", "message"),
    [
        ({"every": "3 epocs"}, "config.every is '3 epocs'; .* string like '3 epochs'"),
        ({"every": "0.01 epochs"}, "config.every is '0.01 epochs', less than one step: .* has 10"),
    ],
)
def test_mistakes_in_epochs_are_named(config, message):
    with pytest.raises(UserError, match=message):
        run_lengths.resolve_epochs(config, 10)
