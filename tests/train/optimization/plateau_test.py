"""The plateau rule against torch's, and its state on devices."""

import math

import numpy as np
import pytest

from xmodal.core.config import read
from xmodal.train.optimization import watching_rules


def make(**options):
    return read(watching_rules.PlateauConfig, "config.optimizer.plateau", {"metric": "m"} | options)


def factors(config, values, learning_rate):
    state, found = watching_rules.init_plateau(config), []
    for count, value in enumerate(values, start=1):
        state = watching_rules.update_plateau(config, state, value, learning_rate, count)
        found.append(float(state.factor))
    return found


def metrics(seed, mode):
    """Values that improve, stall, repeat and move by about the threshold."""
    rng = np.random.default_rng(seed)
    values = 50 + np.cumsum(rng.normal(size=60) * rng.choice([0, 0.002, 1], size=60))
    values[10] = values[9] * (1 - 1.5e-4 if mode == "min" else 1 + 1.5e-4)
    values[11] = values[10] * (1 - 0.5e-4 if mode == "min" else 1 + 0.5e-4)
    values[30] = math.nan
    return values.tolist()


@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize(
    "options",
    [
        {"patience": 0, "factor": 0.5},
        {"patience": 2, "factor": 0.3, "min_rate": 3e-5},
        {"patience": 3, "factor": 0.5, "threshold": 0.01},
    ],
)
def test_rate_is_that_of_torch(mode, options):
    torch = pytest.importorskip("torch")
    config = make(mode=mode, **options)
    values = metrics(len(options), mode)
    rule = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=2e-4)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(
        rule,
        mode,
        factor=config.factor,
        patience=config.patience,
        threshold=config.threshold,
        min_lr=config.min_rate,
    )
    expected = []
    for value in values:
        # float32 like our state: at threshold 0, the last bits of float64 would decide.
        scheduler.step(float(np.float32(value)))
        expected.append(rule.param_groups[0]["lr"])
    found = 2e-4 * np.array(factors(config, values, 2e-4))
    np.testing.assert_allclose(found, expected, rtol=1e-5)
