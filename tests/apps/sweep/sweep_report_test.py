"""The report, table and figure of a sweep with invented results."""

import csv
import dataclasses
import io
import json

import optuna
import pytest

from xmodal.apps.sweep import sweep_report

TAG = "shapes/t2t/recall@1"


def make_trials(plan, scores):
    """Complete trials; None for failed ones."""
    study = plan.make_study()
    for score in scores:
        plan.seed_study(study)
        trial = study.ask()
        plan.draw(study, trial)
        if score is None:
            trial.set_user_attr("error", "no memory")
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
        else:
            metrics = {TAG: 10 * score, f"{TAG}_low": 10 * score - 1, f"{TAG}_high": 10 * score + 1}
            trial.set_user_attr("metrics", metrics | {"shapes/t2t/queries": 100.0})
            study.tell(trial, score)
    return study.trials[: len(scores)]


def report_of(plan, trials, folder, capsys):
    """Lines of the report as printed, with single spaces."""
    sweep_report.write_report(plan, folder, trials)
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(("metric", "order"), [("recall@1", "1340"), ("median_rank", "0413")])
def test_the_best_trial_and_its_metrics(plan, metric, order, tmp_path, capsys):
    plan = dataclasses.replace(plan, select=f"shapes/t2t/{metric}", mode="last")
    trials = make_trials(plan, [1.0, 3.0, None, 3.0, 2.0])
    lines = report_of(plan, trials, tmp_path, capsys)
    best = trials[int(order[0])]
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics == best.user_attrs["metrics"]
    low, high = 10 * best.value - 1, 10 * best.value + 1
    assert f"| {TAG} | {10 * best.value:.4g} ({low:.4g} to {high:.4g}) |" in lines
    assert "5 trials: 4 complete, 1 fail. Score: " in lines[2]
    assert "- 0002: no memory" in lines
    named = [line.split()[1] for line in lines if line.startswith("| 000")]
    assert named == [f"000{number}" for number in order]
    rows = list(csv.DictReader(io.StringIO(sweep_report.format_csv(plan, trials))))
    assert [row["score"] for row in rows] == ["1.0", "3.0", "", "3.0", "2.0"]
    assert (rows[4][TAG], rows[2]["error"]) == ("20.0", "no memory")
