"""One of two processes that share a sweep is killed; the other one resumes its trial."""

import re
import signal
import time

import pytest

from xmodal.train.folder import run_folder

optuna = pytest.importorskip("optuna")

TRIALS, STEPS, EVERY = 2, 60, 10
CONFIG = """
from tests.apps.sweep import bag
from xmodal.apps.sweep import trials

trials._HEARTBEAT_SECONDS = 2  # Three of them without a sign end an attempt.

def get_config():
    config = bag.make_config({data_dir!r})
    config.total_steps, config.checkpoint.every, config.evals.shapes.every = {steps}, {every}, 0
    return config
"""


@pytest.mark.slow
def test_the_trial_of_a_killed_process_goes_on_in_another(few_shapes, start, tmp_path):
    from xmodal.apps.sweep.trials import trials_of

    file, folder = tmp_path / "bag.py", tmp_path / "sweep"
    file.write_text(CONFIG.format(data_dir=few_shapes, steps=STEPS, every=EVERY))

    def begin():
        return start(
            f"--config={file}",
            f"--workdir={folder}",
            f"--trials={TRIALS}",
            "--space=optimizer.learning_rate:log:1e-3:1e-1",
            "--keep_checkpoints=all",
            module="xmodal.apps.sweep",
        )

    killed = begin()
    while max(run_folder.steps(str(folder / "trials/0000")), default=0) < EVERY:
        assert killed.poll() is None, killed.communicate()[0]
        time.sleep(0.0005)
    other = begin()
    killed.kill()
    assert killed.wait() == -signal.SIGKILL
    in_time = run_folder.steps(str(folder / "trials/0000"))[-1]
    assert in_time < STEPS

    output = other.communicate()[0]
    study = optuna.load_study(study_name="sweep", storage=f"sqlite:///{folder}/optuna.db")
    assert [each.state.name for each in trials_of(study)] == ["COMPLETE"] * TRIALS, output
    # The attempt that was killed, and the one that resumed it.
    assert [each.state.name for each in study.trials].count("FAIL") == 1
    log = (folder / "trials/0000/log.txt").read_text()
    assert re.findall(r"Resuming .* from step (\d+)", log) == [str(in_time)]
    assert len(re.findall(rf"step {STEPS}/{STEPS}  loss", log)) == 1
    assert f"{TRIALS} trials: {TRIALS} complete" in (folder / "report.md").read_text()
