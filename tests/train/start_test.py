"""Runs that start from weights, whose step 0 is kept and compared, and runs of no steps."""

import json

import pytest

from tests.tiny_run import TINY, TOTAL_STEPS
from xmodal.apps.explore.compare import compare
from xmodal.train import loop
from xmodal.train.evaluation import subjects
from xmodal.train.folder import run_folder
from xmodal.train.folder.finished import finished_reports


@pytest.fixture
def tuned(config, whole):
    """The config of a short run that starts from the weights of another."""
    config = config.copy_and_resolve_references()
    config.init_from.update(run=str(whole[0]), step="latest", optimizer=False)
    config.total_steps, config.name, config.best_checkpoint.mode = 5, "tuned", "last"
    config.optimizer.schedule = {"name": "cosine", "warmup_steps": 3}
    return config


def read(path):
    return json.loads(path.read_text())


@pytest.mark.slow
def test_a_run_from_weights_ends_with_the_differences_from_its_start(
    tuned, whole, tmp_path, capsys, change_batches, monkeypatch
):
    # Killed while step 0 is evaluated, and again before the first step.
    with monkeypatch.context() as patch:
        patch.setattr(subjects, "write_all", lambda *_, **__: pytest.fail("killed"))
        with pytest.raises(pytest.fail.Exception):
            loop.train(tuned, str(tmp_path))
    assert not (tmp_path / "step_0/test/metrics.json").exists()
    change_batches(lambda step, batch: pytest.fail("killed"))
    with pytest.raises(pytest.fail.Exception):
        loop.train(tuned, str(tmp_path))
    started = (tmp_path / "step_0/test/metrics.json").stat()
    change_batches(lambda step, batch: batch)
    assert loop.train(tuned, str(tmp_path))
    # Not evaluated again, and equal to the end of the other run.
    assert (tmp_path / "step_0/test/metrics.json").stat() == started
    before, after = (
        read(tmp_path / "step_0/test/metrics.json"),
        read(tmp_path / "test/metrics.json"),
    )
    of_other = read(whole[0] / "test/metrics.json")
    if run_folder.best_step(str(whole[0])) == TOTAL_STEPS:
        assert {**before, "step": TOTAL_STEPS} == of_other
    differences = read(tmp_path / "test" / TINY / "comparison.json")
    tag = f"{TINY}/t2t/recall@1"
    assert differences[f"{tag}_difference"] == pytest.approx(after[tag] - before[tag])
    assert differences[f"{tag}_difference_low"] <= differences[f"{tag}_difference_high"]
    table = (tmp_path / "test" / TINY / "comparison.md").read_text()
    assert table.startswith("## tuned step 5 against tuned step 0\n")
    assert table in capsys.readouterr().out
    # A second start prints it again, and `xmodal compare` reads both.
    assert tmp_path / "test" / TINY / "comparison.md" in finished_reports(tuned, str(tmp_path))
    folders = {"before": str(tmp_path / "step_0/test"), "after": str(tmp_path)}
    assert compare(folders).metrics["before"][tag] == before[tag]


def test_no_steps_evaluate_the_initial_weights_and_can_be_extended(tuned, whole, tmp_path):
    tuned.total_steps = 0
    assert loop.train(tuned, str(tmp_path))
    assert run_folder.steps(str(tmp_path)) == [0]
    found = read(tmp_path / "test/metrics.json")
    assert found["step"] == 0
    assert not (tmp_path / "step_0").exists()
    assert finished_reports(tuned, str(tmp_path))
    tuned.total_steps = 5
    assert loop.train(tuned, str(tmp_path))
    assert read(tmp_path / "step_0/test/metrics.json") == found
    assert read(tmp_path / "test/metrics.json") != found
