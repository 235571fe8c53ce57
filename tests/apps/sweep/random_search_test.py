"""Whole sweeps of tiny runs in this process: checked, stopped, continued, failed."""

import dataclasses
import json
import os
import signal

import pytest

from tests.apps.sweep.bag import SELECT, SPACE
from xmodal.apps.sweep import random_search
from xmodal.apps.sweep.distributions import Choice, LogUniform
from xmodal.apps.sweep.record import Record
from xmodal.base.config import UserError
from xmodal.base.disk_errors import DiskError
from xmodal.runs import loop, reporting
from xmodal.runs.folder import folder_lock, run_folder

pytest.importorskip("optuna")
pytestmark = pytest.mark.usefixtures("one_device")


@pytest.fixture
def sweep(plan, tmp_path):
    """Function that runs a sweep and returns its outcomes."""

    def run(draws, plan=plan, *, retry_failed=False, keep_all=False):
        options = {"retry_failed": retry_failed, "keep_all": keep_all}
        random_search.search(plan, tmp_path, draws=draws, **options)
        return Record(tmp_path, plan).outcomes(plan.trials(draws))

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
    assert [each.state for each in outcomes] == ["complete"] * 2
    for each in outcomes:
        folder = tmp_path / "trials" / each.trial.name
        config = run_folder.load_run(str(folder))
        assert config.optimizer.learning_rate == each.trial.values["optimizer.learning_rate"]
        metrics = json.loads((folder / "test/metrics.json").read_text())
        assert each.metrics["shapes/t2t/recall@10"] == metrics["shapes/t2t/recall@10"]
        assert "Similarity: " in (folder / "log.txt").read_text()
    printed = capsys.readouterr().out
    assert "# Sweep of bag" in printed
    assert "Similarity: " not in printed  # the reports of runs are in their logs

    outcomes = sweep(3)
    assert trained == ["0000", "0001", "0002"]
    best = max(outcomes, key=lambda each: each.score)
    for each in outcomes:
        saved = run_folder.steps(str(tmp_path / "trials" / each.trial.name))
        assert bool(saved) == (each is best)
        if saved:
            run_dir = str(tmp_path / "trials" / each.trial.name)
            step = run_folder.best_step(run_dir)
            assert run_folder.load_metrics(run_dir, step)[SELECT] == each.score
    assert (tmp_path / "report.md").read_text() in capsys.readouterr().out
    assert len((tmp_path / "results.csv").read_text().splitlines()) == 4
    assert (tmp_path / "scores.png").read_bytes().startswith(b"\x89PNG")
    assert len(list((tmp_path / "hparams").iterdir())) == 3
    # A smaller number is a prefix of these.
    assert sweep(1) == outcomes[:1]
    assert len((tmp_path / "draws.csv").read_text().splitlines()) == 4
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
        assert not random_search.search(plan, folder, draws=2, retry_failed=False, keep_all=True)
    record = Record(folder, plan)
    assert [each.state for each in record.outcomes(plan.trials(2))] == ["complete", "running"]
    assert run_folder.steps(str(folder / "trials/0001"))[-1] == 2
    assert "1 complete, 1 running" in (folder / "report.md").read_text()

    del trained[:]
    assert random_search.search(plan, folder, draws=2, retry_failed=False, keep_all=True)
    assert trained == ["0001"]
    found = record.outcomes(plan.trials(2))
    assert [(each.score, each.metrics) for each in found] == [
        (each.score, each.metrics) for each in whole
    ]
    assert {p.name: p.read_text() for p in folder.glob("trials/*/test/metrics.json")} == expected


def interrupt(*arguments):
    raise KeyboardInterrupt


@pytest.mark.slow
def test_a_run_that_was_finished_but_not_recorded_is_not_repeated(
    sweep, plan, trained, tmp_path, monkeypatch
):
    with monkeypatch.context() as patch:
        patch.setattr(Record, "complete", interrupt)
        with pytest.raises(KeyboardInterrupt):
            sweep(1)
    assert trained == ["0000"]
    (outcome,) = sweep(1)
    assert trained == ["0000"]
    assert outcome.state == "complete"


@pytest.mark.slow
def test_a_failed_trial_is_recorded_and_the_others_go_on(sweep, trained, tmp_path, monkeypatch):
    step = reporting.Reporter.record

    def diverging(self, number, scalars, *others):
        nan = {"train/loss": float("nan")} if trained == ["0000"] else {}
        step(self, number, scalars | nan, *others)

    with monkeypatch.context() as patch:
        patch.setattr(reporting.Reporter, "record", diverging)
        outcomes = sweep(2)
    assert [each.state for each in outcomes] == ["failed", "complete"]
    assert outcomes[0].error.startswith("Loss or gradient of step 0 is not finite")
    assert "Traceback" in (tmp_path / "trials/0000/log.txt").read_text()
    assert "- 0000: Loss or gradient" in (tmp_path / "report.md").read_text()
    assert [each.state for each in sweep(2)] == ["failed", "complete"]
    assert trained == ["0000", "0001"]
    assert [each.state for each in sweep(2, retry_failed=True)] == ["complete"] * 2
    assert trained == ["0000", "0001", "0000"]


@pytest.mark.parametrize(
    ("error", "tried", "state"),
    [
        (RuntimeError("no memory"), 3, "failed"),
        (DiskError("disk full"), 1, "running"),
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
    with pytest.raises(UserError, match="no memory|disk full"):
        sweep(5)
    assert len(called) == tried
    states = [each.state for each in Record(tmp_path, plan).outcomes(plan.trials(5))]
    assert states == [state] * tried + ["waiting"] * (5 - tried)


def test_only_files_that_were_written_are_named(sweep, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(loop, "train", lambda config, run_dir: 1 / 0)
    assert [each.state for each in sweep(2)] == ["failed"] * 2
    named = [line for line in capsys.readouterr().out.splitlines() if str(tmp_path) in line]
    files = [line.split()[-1] for line in named]
    assert files == [str(tmp_path / name) for name in ("report.md", "results.csv")]


@pytest.mark.slow
def test_a_trial_that_another_process_runs_is_left_to_it(sweep, plan, trained, tmp_path):
    with folder_lock.hold(tmp_path / "claims/0000"):
        outcomes = sweep(2)
    assert trained == ["0001"]
    assert [each.state for each in outcomes] == ["waiting", "complete"]


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
        studied=("model.text.encoder.width", Choice((8, 16))),
    )
    outcomes = sweep(1, studied)
    assert [each.trial.values["model.text.encoder.width"] for each in outcomes] == [8, 16]
    assert len({each.trial.values["optimizer.learning_rate"] for each in outcomes}) == 1
    assert "| 8 (0000) | 16 (0001) |" in " ".join((tmp_path / "report.md").read_text().split())
    # The best trial of each value keeps its weights.
    assert all(run_folder.steps(str(tmp_path / f"trials/{name}")) for name in ("0000", "0001"))


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (
            {"optimizer.learning_rte": LogUniform(1e-3, 1.0)},
            "The search space has optimizer.learning_rte=0.001. Unknown key.*"
            "Did you mean 'learning_rate'?",
        ),
        (
            {"model.text.encoder.dropout": Choice((0.5, 1.5))},
            r"dropout=1.5. .* is 1.5; it must be",
        ),
        ({"batch_size": Choice((16, 1024))}, "batch_size=1024.* is more than the 150 training"),
        ({"optimzer.learning_rate": Choice((1,))}, "config.optimzer is missing"),
        (
            {"optimizer.schedule": Choice(({"name": "cosine", "warmup_steps": "90 epochs"},))},
            r"warmup_steps=\d+ leaves nothing of config.total_steps",
        ),
    ],
)
def test_values_that_the_config_refuses(config, space, message):
    with pytest.raises(UserError, match=message):
        random_search.make_plan(config, space, None, seed=0, select=None)


def test_the_metric_is_known_before_training(config):
    space = {"seed": Choice((0, 1))}

    def select(given):
        return random_search.make_plan(config, space, None, seed=0, select=given).select

    assert select(None) == SELECT
    assert select("shapes/t2t/recall@5") == "shapes/t2t/recall@5"
    assert select("shapes/t2t") == "shapes/t2t/recall@1"  # its first metric
    for wrong, message in (
        ("shape/rsum", "--select=shape/rsum; known: .*Did you mean 'shapes'"),
        ("shapes/t2t/recal@5", "Did you mean 'shapes/t2t/recall@5'"),
    ):
        with pytest.raises(UserError, match=message):
            select(wrong)


@pytest.mark.parametrize(
    ("mode", "metric", "of_plan", "sign"),
    [
        ("max", "recall@5", "max", 1),
        ("max", "median_rank", "min", -1),
        ("last", "median_rank", "last", -1),
    ],
)
def test_the_metric_decides_which_trials_are_better(config, mode, metric, of_plan, sign):
    config.select.mode = mode
    space = {"seed": Choice((0, 1))}
    plan = random_search.make_plan(config, space, None, seed=0, select=f"shapes/t2t/{metric}")
    assert (plan.mode, plan.sign) == (of_plan, sign)
