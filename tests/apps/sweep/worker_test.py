"""Whole sweeps of tiny runs in this process: checked, stopped, continued, failed."""

import dataclasses
import json
import math
import os
import pathlib
import signal

import filelock
import optuna
import pytest

from tests.apps.sweep.bag import SELECT, SPACE
from xmodal.apps.sweep import worker
from xmodal.apps.sweep.sweep_report import name_of
from xmodal.apps.sweep.worker import open_study, search, trials_of
from xmodal.core.errors import UserError
from xmodal.core.result_files import format_json
from xmodal.train import loop, reporting
from xmodal.train.folder import run_folder

pytestmark = pytest.mark.usefixtures("one_device", "kept_functions")


@pytest.fixture
def sweep(plan, tmp_path):
    """Function that runs a sweep and returns its outcomes."""

    def run(draws, plan=plan, *, retry_failed=False, keep_all=False):
        options = {"retry_failed": retry_failed, "keep_all": keep_all}
        search(plan, tmp_path, draws=draws, **options)
        found = trials_of(open_study(tmp_path, plan))
        return found[: len(plan.trials(draws))]

    return run


@pytest.fixture
def trained(monkeypatch):
    """Folders of the runs for which training was called, in order."""
    called, train = [], loop.train

    def calling(config, run_dir):
        called.append(os.path.basename(run_dir))
        return train(config, run_dir)

    monkeypatch.setattr(loop, "train", calling)
    return called


@pytest.mark.slow
def test_a_sweep_and_its_continuation(sweep, plan, trained, tmp_path, capsys):
    outcomes = sweep(2)
    assert trained == ["0000", "0001"]
    assert [each.state.name for each in outcomes] == ["COMPLETE"] * 2
    for each in outcomes:
        folder = tmp_path / "trials" / name_of(each)
        config = run_folder.load_run(str(folder))
        assert (
            config.optimizer.learning_rate == each.user_attrs["values"]["optimizer.learning_rate"]
        )
        metrics = json.loads((folder / "test/metrics.json").read_text())
        assert each.user_attrs["metrics"]["shapes/t2t/recall@10"] == metrics["shapes/t2t/recall@10"]
        assert each.user_attrs["rank"][0] == each.value
        assert "Similarity: " in (folder / "log.txt").read_text()
    printed = capsys.readouterr().out
    assert "# Sweep of bag" in printed
    assert "Similarity: " not in printed  # the reports of runs are in their logs

    outcomes = sweep(3)
    assert trained == ["0000", "0001", "0002"]
    best = max(outcomes, key=lambda each: each.value)
    for each in outcomes:
        saved = run_folder.steps(str(tmp_path / "trials" / name_of(each)))
        assert bool(saved) == (each is best)
        if saved:
            run_dir = str(tmp_path / "trials" / name_of(each))
            step = run_folder.best_step(run_dir)
            assert run_folder.load_metrics(run_dir, step)[SELECT] == each.value
    assert (tmp_path / "report.md").read_text() in capsys.readouterr().out
    assert len((tmp_path / "results.csv").read_text().splitlines()) == 4
    assert (tmp_path / "scores.png").read_bytes().startswith(b"\x89PNG")
    assert len(list((tmp_path / "hparams").iterdir())) == 3
    # A smaller number is a prefix of these.
    assert sweep(1) == outcomes[:1]
    assert len(trained) == 3


@pytest.mark.slow
def test_a_stopped_sweep_goes_on_in_the_middle_of_a_run(
    sweep, plan, trained, tmp_path, monkeypatch
):
    whole = sweep(2, keep_all=True)
    expected = {path.name: path.read_text() for path in tmp_path.glob("trials/*/test/metrics.json")}
    folder = tmp_path / "other"
    make_batches = loop.make_batches

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
    assert "1 complete, 1 waiting" in (folder / "report.md").read_text()

    del trained[:]
    assert search(plan, folder, draws=2, retry_failed=False, keep_all=True)
    assert trained == ["0001"]
    found = trials_of(study)
    assert [(each.value, each.user_attrs["metrics"]) for each in found] == [
        (each.value, each.user_attrs["metrics"]) for each in whole
    ]
    assert {p.name: p.read_text() for p in folder.glob("trials/*/test/metrics.json")} == expected


def interrupt(*arguments):
    raise KeyboardInterrupt


@pytest.mark.slow
def test_a_run_that_was_finished_but_not_recorded_is_not_repeated(
    sweep, plan, trained, tmp_path, monkeypatch
):
    with monkeypatch.context() as patch:
        patch.setattr(optuna.trial.Trial, "set_user_attr", interrupt)
        with pytest.raises(KeyboardInterrupt):
            sweep(1)
    assert trained == ["0000"]
    (outcome,) = sweep(1)
    assert trained == ["0000"]
    assert outcome.state.name == "COMPLETE"


@pytest.mark.slow
def test_a_failed_trial_is_recorded_and_the_others_go_on(sweep, trained, tmp_path, monkeypatch):
    step = reporting.Reporter.record

    def diverging(self, number, scalars, *others):
        nan = {"train/loss": float("nan")} if trained == ["0000"] else {}
        step(self, number, scalars | nan, *others)

    with monkeypatch.context() as patch:
        patch.setattr(reporting.Reporter, "record", diverging)
        outcomes = sweep(2)
    assert [each.state.name for each in outcomes] == ["FAIL", "COMPLETE"]
    assert outcomes[0].user_attrs["error"].startswith("Loss or gradient of step 0 is not finite")
    assert "Traceback" in (tmp_path / "trials/0000/log.txt").read_text()
    assert "- 0000: Loss or gradient" in (tmp_path / "report.md").read_text()
    assert [each.state.name for each in sweep(2)] == ["FAIL", "COMPLETE"]
    assert trained == ["0000", "0001"]
    assert [each.state.name for each in sweep(2, retry_failed=True)] == ["COMPLETE"] * 2
    assert trained == ["0000", "0001", "0000"]


def test_undefined_numbers_of_a_trial(sweep, tmp_path, monkeypatch):
    """Other metrics may be undefined; the one that trials are compared by may not."""
    scores = {"0000": 50.0, "0001": math.nan}

    def train(config, run_dir):
        (pathlib.Path(run_dir) / "test").mkdir()
        numbers = format_json({"step": 4, "a/t2t/spearman": math.nan, "a/t2t/pairs": 7.0})
        (pathlib.Path(run_dir) / "test/metrics.json").write_text(numbers)
        return True

    monkeypatch.setattr(loop, "train", train)
    monkeypatch.setattr(run_folder, "best_step", lambda run_dir: 4)
    monkeypatch.setattr(
        run_folder, "load_metrics", lambda run_dir, step: {SELECT: scores[run_dir[-4:]]}
    )
    first, second = sweep(2)
    assert first.value == 50
    assert first.user_attrs["metrics"] == {"a/t2t/pairs": 7}
    assert second.user_attrs["error"] == f"{SELECT} of the best checkpoint is undefined."
    assert second.state.name == "FAIL"
    assert f"- 0001: {SELECT} of the best checkpoint" in (tmp_path / "report.md").read_text()


@pytest.mark.parametrize(
    ("error", "tried", "state"),
    [
        (RuntimeError("no memory"), 3, "FAIL"),
        (OSError("disk full"), 1, "WAITING"),
    ],
)
def test_errors_that_would_come_again_end_the_sweep(
    sweep, plan, tmp_path, monkeypatch, error, tried, state
):
    called = []

    def failing(config, run_dir):
        called.append(run_dir)
        raise error

    monkeypatch.setattr(loop, "train", failing)
    with pytest.raises((UserError, OSError), match="no memory|disk full"):
        sweep(5)
    assert len(called) == tried
    states = [each.state.name for each in trials_of(open_study(tmp_path, plan))]
    assert states == [state] * tried


@pytest.mark.slow
def test_trials_that_succeed_at_last_are_not_errors(sweep, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(loop, "train", lambda config, run_dir: 1 / 0)
        with pytest.raises(UserError, match="3 trials in a row failed alike"):
            sweep(3)

    def succeeding(study, trial, config, run_dir):
        trial.set_user_attr("metrics", {SELECT: 50.0})
        return 50.0

    monkeypatch.setattr(worker, "_run", succeeding)
    outcomes = sweep(3, retry_failed=True)
    assert [each.state.name for each in outcomes] == ["COMPLETE"] * 3
    assert "ZeroDivisionError" not in (tmp_path / "results.csv").read_text()


def test_only_files_that_were_written_are_named(sweep, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(loop, "train", lambda config, run_dir: 1 / 0)
    assert [each.state.name for each in sweep(2)] == ["FAIL"] * 2
    named = [line for line in capsys.readouterr().out.splitlines() if str(tmp_path) in line]
    files = [line.split()[-1] for line in named]
    assert files == [str(tmp_path / name) for name in ("report.md", "results.csv")]


def test_no_process_replaces_newer_tables_by_its_older_ones(sweep, tmp_path, monkeypatch):
    written, write = [], worker.report.write_tables

    def write_alone(*arguments):
        with pytest.raises(filelock.Timeout):
            filelock.FileLock(tmp_path / "sweep.lock").acquire(timeout=0)
        written.append(arguments)
        write(*arguments)

    monkeypatch.setattr(loop, "train", lambda config, run_dir: 1 / 0)
    monkeypatch.setattr(worker.report, "write_tables", write_alone)
    sweep(2)
    assert [len(trials) for _, _, trials in written] == [1, 2, 2]


@pytest.mark.slow
def test_trials_of_living_processes_are_left_to_them_and_those_of_dead_ones_are_not(
    sweep, plan, trained, tmp_path
):
    sweep(1)
    other = open_study(tmp_path, plan)
    worker._fill_queue(other, plan, plan.trials(2))
    other.ask()
    with worker._lock_of(tmp_path, "0001"):
        outcomes = sweep(3)
    assert [each.state.name for each in outcomes] == ["COMPLETE", "RUNNING", "COMPLETE"]
    assert trained == ["0000", "0002"]
    assert [each.state.name for each in sweep(3)] == ["COMPLETE"] * 3
    assert trained == ["0000", "0002", "0001"]


def test_a_running_trial_is_not_dead(sweep, plan, tmp_path, monkeypatch):
    seen = []

    def failing(config, run_dir):
        other = open_study(tmp_path, plan)
        worker._requeue_dead(other, tmp_path)
        seen.extend(each.state.name for each in other.trials)
        raise RuntimeError("no memory")

    monkeypatch.setattr(loop, "train", failing)
    assert [each.state.name for each in sweep(1)] == ["FAIL"]
    assert seen == ["RUNNING"]


@pytest.mark.slow
def test_another_sweep_is_refused_before_a_trial(sweep, plan, trained):
    sweep(1)
    with pytest.raises(UserError, match="has trials of another sweep"):
        sweep(1, dataclasses.replace(plan, seed=5))
    assert trained == ["0000"]


@pytest.mark.slow
def test_the_values_of_a_study_are_compared(sweep, plan, tmp_path):
    studied = dataclasses.replace(
        plan,
        space={"optimizer.learning_rate": SPACE["optimizer.learning_rate"]},
        studied=("model.text.encoder.width", (8, 16)),
    )
    outcomes = sweep(1, studied)
    assert [each.user_attrs["values"]["model.text.encoder.width"] for each in outcomes] == [8, 16]
    assert len({each.user_attrs["values"]["optimizer.learning_rate"] for each in outcomes}) == 1
    assert "| 8 (0000) | 16 (0001) |" in " ".join((tmp_path / "report.md").read_text().split())
    # The best trial of each value keeps its weights.
    assert all(run_folder.steps(str(tmp_path / f"trials/{name}")) for name in ("0000", "0001"))
