"""A run that is killed at any moment and started again ends as if nothing had happened."""

import signal
import time

import jax
import numpy as np
import pytest

from xmodal.training import checkpoints

TOTAL_STEPS = 60


@pytest.mark.slow
def test_killed_run_ends_like_an_uninterrupted_one(image_config, start, read_arrays, tmp_path):
    """Killed while it writes a checkpoint, then in an evaluation; every array is equal in bits."""

    def begin(run_dir, **variables):
        return start(
            f"--config={image_config}",
            f"--workdir={run_dir}",
            f"--config.total_steps={TOTAL_STEPS}",
            "--config.checkpoint.every=5",
            "--config.evals.shapes.every=20",
            **variables,
        )

    def kill_once(process, is_moment):
        while not is_moment():
            assert process.poll() is None, process.communicate()[0]
            time.sleep(0.0005)
        process.kill()
        assert process.wait() == -signal.SIGKILL

    whole, killed = tmp_path / "whole", tmp_path / "killed"
    output, _ = begin(whole).communicate()
    assert (whole / "test" / "metrics.json").exists(), output

    def unfinished():
        return list(killed.glob("checkpoints/*tmp*/*"))

    # Behind a step that was trained, so that there is something to lose.
    kill_once(
        begin(killed), lambda: max(checkpoints.steps(str(killed)), default=0) and unfinished()
    )
    assert unfinished()
    in_save = checkpoints.steps(str(killed))[-1]

    evaluating = tmp_path / "evaluating"
    process = begin(killed, STOP_IN_EVALUATION=str(evaluating))
    kill_once(process, evaluating.exists)
    in_evaluation = checkpoints.steps(str(killed))[-1]
    print(f"killed behind step {in_save} and behind step {in_evaluation}")
    assert 0 < in_save <= in_evaluation < TOTAL_STEPS

    output, _ = begin(killed).communicate()
    assert f"from step {in_evaluation}" in output
    for item in ("params", "opt_state", "model_state"):
        last = f"checkpoints/{TOTAL_STEPS}/{item}"
        found, expected = read_arrays(killed / last), read_arrays(whole / last)
        assert jax.tree.leaves(expected)
        jax.tree.map(np.testing.assert_array_equal, found, expected)
    metrics = [(folder / "test" / "metrics.json").read_text() for folder in (whole, killed)]
    assert metrics[0] == metrics[1]
