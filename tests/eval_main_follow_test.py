"""The evaluation binary follows a running training job."""

import logging
import shutil

import pytest

from tests.saved_run import TOTAL_STEPS, evaluate, read
from xmodal.train.evaluation import run_subjects


@pytest.mark.slow
def test_follow_evaluates_what_is_new_and_ends_with_the_run(
    saved_run_dir, tmp_path, monkeypatch, capsys, caplog
):
    """The last checkpoint appears while the follower waits; one was evaluated before."""
    growing, output = tmp_path / "run", tmp_path / "out"
    last = f"checkpoints/{TOTAL_STEPS}"
    shutil.copytree(saved_run_dir, growing, ignore=shutil.ignore_patterns(str(TOTAL_STEPS), "test"))
    (output / "steps").mkdir(parents=True)
    (output / "steps/0.json").write_text("{}")
    waited = []
    caplog.set_level(logging.INFO, logger="absl")

    def sleep(seconds):
        waited.append(seconds)
        shutil.copytree(saved_run_dir / last, growing / last)

    monkeypatch.setattr(run_subjects.time, "sleep", sleep)
    evaluate(run=str(growing), follow=True, output=str(output))
    assert len(waited) == 1
    # One line per checkpoint, and where the pages are.
    lines = [message for message in caplog.messages if message.startswith("step ")]
    assert [line.split()[1] for line in lines] == ["2", "4"]
    assert all(line.startswith("Report: ") for line in capsys.readouterr().out.splitlines())
    assert not (output / ".writer.lock").exists()
    assert sorted(p.name for p in (output / "steps").iterdir()) == ["0.json", "2.json", "4.json"]
    assert read(output / "steps/0.json") == {}  # not evaluated again
    evaluate(run=str(growing), follow=True, output=str(output), overwrite=True)
    assert read(output / "steps/0.json")  # again
    assert read(output / "metrics.json")["step"] == TOTAL_STEPS
