"""Whole sweeps of tiny runs in this process: checked, stopped, killed, continued, failed."""

import dataclasses
import json
import os
import pathlib
import signal

import optuna
import pytest

from tests.apps.sweep.bag import SELECT, SPACE
from xmodal.apps.sweep import plan as plan_lib
from xmodal.apps.sweep import trials as trials_lib
from xmodal.apps.sweep.sweep_report import name_of
from xmodal.apps.sweep.trials import open_study, search, trials_of
from xmodal.core.errors import UserError
from xmodal.core.files import format_json
from xmodal.train import loop, reporting
from xmodal.train.folder import run_folder

RATE = "optimizer.learning_rate"
pytestmark = pytest.mark.usefixtures("one_device", "kept_functions")


@pytest.fixture
def sweep(plan, tmp_path):
    """Function that runs a sweep and returns its trials."""

    def run(draws, plan=plan, *, retry_failed=False, keep_all=False):
        search(plan, tmp_path, draws=draws, retry_failed=retry_failed, keep_all=keep_all)
        return trials_of(open_study(tmp_path, plan))

    return run


@pytest.fixture
def trained(monkeypatch):
    """Folders of the runs for which training was called, in order."""
    called, train = [], loop.train

    def calling(config, run_dir, **options):
        called.append(os.path.basename(run_dir))
        return train(config, run_dir, **options)

    monkeypatch.setattr(loop, "train", calling)
    return called


@pytest.mark.slow
def test_a_sweep_and_its_continuation(sweep, plan, trained, tmp_path, capsys):
    found = sweep(2)
    assert trained == ["0000", "0001"]
    for each in found:
        folder = tmp_path / "trials" / name_of(each)
        rate = run_folder.load_run(str(folder)).optimizer.learning_rate
        assert rate == each.user_attrs["values"]["optimizer.learning_rate"]
        metrics = json.loads((folder / "test/metrics.json").read_text())
        assert each.user_attrs["metrics"]["shapes/t2t/recall@10"] == metrics["shapes/t2t/recall@10"]
        assert each.user_attrs["rank"][0] == each.value
        assert "Similarity: " in (folder / "log.txt").read_text()
    printed = capsys.readouterr().out
    assert "# Sweep of bag" in printed
    assert "Similarity: " not in printed  # the reports of runs are in their logs

    found = sweep(3)
    assert trained == ["0000", "0001", "0002"]
    best = max(found, key=lambda each: each.value)
    for each in found:
        assert bool(run_folder.steps(str(tmp_path / "trials" / name_of(each)))) == (each is best)
    assert (tmp_path / "report.md").read_text() in capsys.readouterr().out
    assert len((tmp_path / "results.csv").read_text().splitlines()) == 4
    with pytest.raises(UserError, match="has trials of another sweep"):
        sweep(1, dataclasses.replace(plan, seed=5))


@pytest.mark.slow
def test_a_stopped_sweep_goes_on_in_the_middle_of_a_run(
    sweep, plan, trained, tmp_path, monkeypatch
):
    whole = sweep(2, keep_all=True)
    folder, make_batches = tmp_path / "other", loop.make_batches

    def stopping(parts, first_step, features):
        for step, batch in enumerate(make_batches(parts, first_step, features), first_step):
            if parts.config.name == "bag_0001" and first_step == 0 and step == 1:
                os.kill(os.getpid(), signal.SIGINT)
            yield batch

    with monkeypatch.context() as patch:
        patch.setattr(loop, "make_batches", stopping)
        assert not search(plan, folder, draws=2, retry_failed=False, keep_all=True)
    study = open_study(folder, plan)
    assert [each.state.name for each in trials_of(study)] == ["COMPLETE", "WAITING"]
    assert run_folder.steps(str(folder / "trials/0001"))[-1] == 2
    del trained[:]
    assert search(plan, folder, draws=2, retry_failed=False, keep_all=True)
    assert trained == ["0001"]
    found = trials_of(study)
    assert [(each.value, each.user_attrs["metrics"]) for each in found] == [
        (each.value, each.user_attrs["metrics"]) for each in whole
    ]


def fake_results(run_dir, **numbers):
    folder = pathlib.Path(run_dir) / "test"
    folder.mkdir(parents=True)
    (folder / "metrics.json").write_text(format_json({"step": 4} | numbers))


@pytest.mark.slow
def test_a_failed_trial_is_recorded_and_the_others_go_on(sweep, trained, tmp_path, monkeypatch):
    step = reporting.Reporter.record

    def diverging(self, number, scalars, *others):
        nan = {"train/loss": float("nan")} if trained == ["0000"] else {}
        step(self, number, scalars | nan, *others)

    with monkeypatch.context() as patch:
        patch.setattr(reporting.Reporter, "record", diverging)
        found = sweep(2)
    assert [each.state.name for each in found] == ["FAIL", "COMPLETE"]
    assert found[0].user_attrs["error"].startswith("Loss or gradient of step 0 is not finite")
    assert "Traceback" in (tmp_path / "trials/0000/log.txt").read_text()
    assert "- 0000: Loss or gradient" in (tmp_path / "report.md").read_text()
    assert [each.state.name for each in sweep(2, retry_failed=True)] == ["COMPLETE"] * 2
    assert trained == ["0000", "0001", "0000"]


def test_a_pruner_ends_trials_that_are_worse(sweep, plan, monkeypatch):
    """The second trial is below the first at every step; the median is that of the first."""
    scores = {"0000": 50.0, "0001": 40.0, "0002": 60.0}

    def train(config, run_dir, *, watch):
        score = scores[run_dir[-4:]]
        for step in (2, 4):
            watch(step, {SELECT: score})
        fake_results(run_dir)
        return True

    monkeypatch.setattr(loop, "train", train)
    monkeypatch.setattr(
        trials_lib.run_training, "best_metrics", lambda run_dir: {SELECT: scores[run_dir[-4:]]}
    )
    pruner = optuna.pruners.MedianPruner(n_startup_trials=1)
    monkeypatch.setitem(plan_lib.PRUNERS, "median", lambda: pruner)
    found = sweep(3, dataclasses.replace(plan, pruner="median"))
    assert [each.state.name for each in found] == ["COMPLETE", "PRUNED", "COMPLETE"]


@pytest.mark.slow
def test_the_values_of_a_study_are_compared(sweep, plan, tmp_path):
    """Two losses, of which one has the drawn margin."""
    losses = {"name": "softmax"}, {"name": "triplet", "options": {"mining": "all"}}
    margin = "tasks.t2t.loss.options.margin"
    space = {RATE: SPACE[RATE], margin: ("uniform", 0.1, 0.5)}
    studied = dataclasses.replace(plan, space=space, studied=("tasks.t2t.loss", losses))
    found = sweep(1, plan_lib.make_plan(studied, SELECT))
    values = [each.user_attrs["values"] for each in found]
    assert [each["tasks.t2t.loss"] for each in values] == list(losses)
    assert (margin in values[0], margin in values[1]) == (False, True)
    assert values[0][RATE] == values[1][RATE]
    options = run_folder.load_run(str(tmp_path / "trials/0001")).tasks.t2t.loss.options
    assert options.to_dict() == {"mining": "all", "margin": values[1][margin]}
    heads = " ".join((tmp_path / "report.md").read_text().split())
    assert '| {"name": "softmax"} (0000) | {"name": "triplet"' in heads
    assert not (tmp_path / "metrics.json").exists()
    # The best trial of each value keeps its weights.
    assert all(run_folder.steps(str(tmp_path / f"trials/{name}")) for name in ("0000", "0001"))
