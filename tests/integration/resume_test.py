"""A run that is killed at any moment and started again ends as if nothing had happened."""

import random
import signal
import time

import jax
import numpy as np
import pytest

from xmodal.training import checkpoints

TOTAL_STEPS = 400


@pytest.mark.slow
def test_killed_run_ends_like_an_uninterrupted_one(tiny_config, start, read_arrays, tmp_path):
    def begin(run_dir):
        return start(
            f"--config={tiny_config}",
            f"--workdir={run_dir}",
            f"--config.total_steps={TOTAL_STEPS}",
            "--config.checkpoint.every=20",
            "--config.evals.shapes.every=100",
        )

    whole, killed = tmp_path / "whole", tmp_path / "killed"
    output, _ = begin(whole).communicate()
    assert (whole / "test" / "metrics.json").exists(), output

    process = begin(killed)
    while not checkpoints.steps(str(killed)):
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.01)
    delay = random.uniform(0.0, 0.5)  # well before the run would end
    time.sleep(delay)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    reached = checkpoints.steps(str(killed))[-1]
    print(f"killed after {delay} s, last checkpoint {reached}")
    assert reached < TOTAL_STEPS

    output, _ = begin(killed).communicate()
    assert f"from step {reached}" in output
    for item in ("params", "opt_state", "model_state"):
        last = f"checkpoints/{TOTAL_STEPS}/{item}"
        found, expected = read_arrays(killed / last), read_arrays(whole / last)
        assert jax.tree.leaves(expected)
        jax.tree.map(np.testing.assert_array_equal, found, expected)
    metrics = [(folder / "test" / "metrics.json").read_text() for folder in (whole, killed)]
    assert metrics[0] == metrics[1]
