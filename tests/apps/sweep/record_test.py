"""The record of a sweep, reopened and used by several processes."""

import concurrent.futures
import dataclasses

import pytest

from xmodal.apps.sweep.distributions import Choice
from xmodal.apps.sweep.record import Record, check_installed
from xmodal.base.config import UserError

optuna = pytest.importorskip("optuna")
TrialState = optuna.trial.TrialState


def states(record, trials):
    return [each.state for each in record.outcomes(trials)]


def test_every_change_is_on_disk(plan, tmp_path):
    trials = list(plan.trials(4))
    record = Record(tmp_path, plan)
    assert record.draws == 0
    record.add(trials)
    record.start(trials[1])
    record.start(trials[1])  # by the process that continues it
    record.complete(trials[1], 31.5, {"shapes/rsum": 120.0}, 2.5)
    record.start(trials[2])
    record.fail(trials[2], "NonFiniteLossError: step 3")
    record.start(trials[3])
    again = Record(tmp_path, plan)
    again.add(plan.trials(6))
    assert again.draws == 6
    assert states(again, plan.trials(6)) == [
        "waiting", "complete", "failed", "running", "waiting", "waiting",
    ]  # fmt: skip
    complete, failed = again.outcomes(trials)[1:3]
    assert (complete.score, complete.seconds) == (31.5, 2.5)
    assert complete.metrics == {"shapes/rsum": 120.0}
    assert (failed.score, failed.error) == (None, "NonFiniteLossError: step 3")
    assert [each.is_finished for each in again.outcomes(trials)] == [False, True, True, False]


def test_optuna_reads_it(plan, tmp_path):
    studied = ("l2", Choice((None, {"scale": 0.1})))
    plan = dataclasses.replace(plan, select="shapes/t2t/median_rank", studied=studied)
    record, trials = Record(tmp_path, plan), list(plan.trials(3))
    record.add(trials)
    for score, trial in enumerate(trials):
        record.start(trial)
        record.complete(trial, -float(score % 3), {}, 1.0)
    study = optuna.load_study(study_name="sweep", storage=f"sqlite:///{tmp_path}/optuna.db")
    assert study.best_trial.number == 2
    assert study.best_value == -2
    assert [each.state for each in study.trials] == [TrialState.COMPLETE] * 6
    path = "optimizer.learning_rate"
    assert [each.params[path] for each in study.trials] == [each.values[path] for each in trials]
    assert [each.params["l2"] for each in study.trials] == [None, '{"scale": 0.1}'] * 3
    assert study.trials[0].distributions[path].log


def test_a_failed_trial_may_be_tried_again(plan, tmp_path):
    record, (trial, other) = Record(tmp_path, plan), plan.trials(2)
    record.add([trial, other])
    record.start(trial)
    record.fail(trial, "no memory")
    record.add([trial, other])
    assert states(record, [trial, other]) == ["failed", "waiting"]
    record.add_again([trial])
    assert states(record, [trial, other]) == ["waiting", "waiting"]
    record.start(trial)
    record.complete(trial, 1.0, {}, 1.0)
    assert states(Record(tmp_path, plan), [trial, other]) == ["complete", "waiting"]


def test_trials_that_are_drawn_otherwise_are_refused(plan, tmp_path):
    record, trials = Record(tmp_path, plan), list(plan.trials(2))
    record.add(trials)
    changed = {**trials[1].values, "optimizer.learning_rate": 0.05}
    with pytest.raises(UserError, match=r"Trial 0001 of the record has .* but is drawn as .*0\.05"):
        record.add([dataclasses.replace(trials[1], values=changed)])


def test_several_writers(plan, tmp_path):
    trials = list(plan.trials(8))
    Record(tmp_path, plan).add(trials)

    def work(share):
        record = Record(tmp_path, plan)
        for trial in trials[share::4]:
            record.start(trial)
            record.complete(trial, float(trial.number), {"x": 1.0}, 0.1)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    found = Record(tmp_path, plan).outcomes(trials)
    assert [each.score for each in found] == list(range(8))


def test_without_optuna(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "optuna", None)
    with pytest.raises(UserError, match=r'pip install "xmodal\[sweep\]"'):
        check_installed()
