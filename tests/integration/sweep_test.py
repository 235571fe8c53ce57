"""A killed sweep resumes in two processes, without losing or repeating a trial."""

import re
import signal
import time

import pytest

from xmodal.apps.sweep.worker import trials_of
from xmodal.train.folder import run_folder

optuna = pytest.importorskip("optuna")

TRIALS, STEPS, EVERY = 5, 60, 10
CONFIG = """
from tests.apps.sweep import bag

def get_config():
    config = bag.make_config({data_dir!r})
    config.total_steps, config.checkpoint.every, config.evals.shapes.every = {steps}, {every}, 30
    return config
"""


@pytest.mark.slow
def test_a_killed_sweep_goes_on_in_two_processes(few_shapes, start, tmp_path):
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

    def saved(name):
        return run_folder.steps(str(folder / "trials" / name))

    process = begin()
    while max(saved("0001"), default=0) < EVERY:
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.0005)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    in_time = saved("0001")[-1]
    assert in_time < STEPS
    before = (folder / "trials/0000/test/metrics.json").stat().st_mtime_ns

    outputs = [each.communicate()[0] for each in (begin(), begin())]
    study = optuna.load_study(study_name="sweep", storage=f"sqlite:///{folder}/optuna.db")
    trials = trials_of(study)
    assert [each.user_attrs["trial"] for each in trials] == list(range(TRIALS)), outputs
    assert all(each.state.name == "COMPLETE" for each in trials), outputs
    # The attempt that was killed, and the one that resumed it.
    assert [each.state.name for each in study.trials].count("FAIL") == 1
    assert len(study.trials) == TRIALS + 1
    run_by = []
    for number in range(TRIALS):
        log = (folder / f"trials/{number:04d}/log.txt").read_text()
        resumed = re.findall(r"Resuming .* from step (\d+)", log)
        assert [int(step) for step in resumed] == ([in_time] if number == 1 else [])
        assert len(re.findall("Compiled in", log)) == (2 if number == 1 else 1)
        assert len(re.findall(rf"step {STEPS}/{STEPS}  loss", log)) == 1
        run_by.append([f"Trial {number:04d}: shapes/" in output for output in outputs])
    # Complete trials are unchanged; each of the others was run by one of the two processes.
    assert (folder / "trials/0000/test/metrics.json").stat().st_mtime_ns == before
    assert [sum(each) for each in run_by] == [0, 1, 1, 1, 1]
    assert all(any(column) for column in zip(*run_by, strict=True)), outputs
    assert f"{TRIALS} trials: {TRIALS} complete" in (folder / "report.md").read_text()
