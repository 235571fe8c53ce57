"""The report, table and figure of a sweep with invented results."""

import csv
import dataclasses
import io

import matplotlib
import numpy as np
import optuna
import pytest
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
from tensorboard.util import tensor_util

from xmodal.apps.sweep import sweep_report
from xmodal.apps.sweep.space import choices

TAG = "shapes/t2t/recall@1"


@pytest.fixture
def studied(plan):
    return dataclasses.replace(plan, studied=("batch_size", (16, 32)))


def make_trials(plan, scores):
    """Complete trials; None for failed ones."""
    trials = []
    for number, score in enumerate(scores):
        values = plan.trials(len(scores))[number]
        about = {"trial": number, "values": values}
        if score is None:
            about["error"] = "no memory"
        else:
            metrics = {TAG: 10 * score, f"{TAG}_low": 10 * score - 1, f"{TAG}_high": 10 * score + 1}
            about["metrics"] = metrics | {"shapes/t2t/queries": 100.0}
        state = optuna.trial.TrialState.FAIL if score is None else None
        state = state or optuna.trial.TrialState.COMPLETE
        trials.append(
            optuna.trial.create_trial(
                state=state,
                value=score,
                params=values,
                distributions=plan.parameters,
                user_attrs=about,
            )
        )
    return trials


def rows_of(text, header):
    """Cells of the Markdown table below a line."""
    lines = text.partition(header)[2].lstrip("\n").splitlines()
    table = [line for line in lines[: lines.index("")] if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


@pytest.mark.parametrize(("second", "bold"), [(2.0, [False, True]), (1.1, [True, True])])
def test_the_best_value_and_those_not_separable_are_bold_in_latex(studied, second, bold):
    """The intervals are 1 to either side of ten times the score."""
    trials = make_trials(studied, [1.0, second])
    assert len(sweep_report.best_trials(studied, trials)) == 2
    latex = sweep_report.format_report(studied, trials, "sweeps/bag", "latex")
    row = next(line for line in latex.splitlines() if line.startswith("shapes/t2t/recall@1 &"))
    assert [r"\textbf" in cell for cell in row.split(" & ")[1:]] == bold


@pytest.mark.parametrize(("metric", "number"), [("recall@1", 1), ("median_rank", 0)])
def test_the_best_trial_and_its_metrics(plan, metric, number):
    plan = dataclasses.replace(plan, select=f"shapes/t2t/{metric}", mode="last")
    outcomes = make_trials(plan, [1.0, 3.0, None, 3.0, 2.0])
    (best,) = sweep_report.best_trials(plan, outcomes).values()
    assert best.user_attrs["trial"] == number  # the first of equals
    text = sweep_report.format_report(plan, outcomes, "sweeps/bag")
    latex = sweep_report.format_report(plan, outcomes, "sweeps/bag", "latex")
    assert r"\caption{Best}" in latex
    assert rf"score & {best.value:.4g} \\" in latex
    assert "5 trials: 4 complete, 1 failed." in text
    assert "- sweeps/bag/trials/" + sweep_report.name_of(best) in text
    assert "- 0002: no memory" in text
    table = rows_of(text, "these checkpoints:")
    score = best.value
    assert table[-1:] == [[TAG, f"{10 * score:.4g} ({10 * score - 1:.4g} to {10 * score + 1:.4g})"]]
    ordered = {"recall@1": [1, 3, 4, 0], "median_rank": [0, 4, 1, 3]}[metric]
    rows = rows_of(text, "`results.csv` has all.")[2:]
    assert [row[:2] for row in rows] == [
        [f"{each:04d}", f"{outcomes[each].value:.4g}"] for each in ordered
    ]
    assert all(len(row) == 2 + len(plan.parameters) for row in rows)


@pytest.mark.parametrize(
    ("ranks", "best", "said"),
    [
        ([[2, 5], [2, 7], [1, 9]], 1, "that of 2 trials; further metrics of the same table decide"),
        ([[2, 5, -np.inf], [2, 5, 4.0], [1, 9, 9]], 1, "that of 2 trials; further"),
        ([[2, 5], [2, 5], [1, 9]], 0, "that of 2 trials; the first is taken"),
        ([[2, 5], [1, 7], [1, 9]], 0, ""),
    ],
)
def test_metrics_that_break_ties_between_checkpoints_do_so_between_trials(plan, ranks, best, said):
    outcomes = make_trials(plan, [float(score) for score, *_ in ranks])
    for trial, rank in zip(outcomes, ranks, strict=True):
        trial.set_user_attr("rank", rank)
    assert sweep_report.best_trials(plan, outcomes)[""].user_attrs["trial"] == best
    text = sweep_report.format_report(plan, outcomes, "x")
    assert f"The best score is {said}" in text if said else "The best score" not in text


def test_ten_trials_are_listed(plan):
    text = sweep_report.format_report(plan, make_trials(plan, [float(n) for n in range(12)]), "x")
    rows = rows_of(text, "`results.csv` has all.")[2:]
    assert [row[0] for row in rows] == [f"{number:04d}" for number in range(11, 1, -1)]


def test_the_best_trial_of_each_studied_value(studied):
    outcomes = make_trials(studied, [1.0, 5.0, 4.0, 2.0, None, 3.0])
    best = sweep_report.best_trials(studied, outcomes)
    assert {key: each.user_attrs["trial"] for key, each in best.items()} == {"16": 2, "32": 1}
    table = rows_of(sweep_report.format_report(studied, outcomes, "x"), "these checkpoints:")
    assert table[0] == ["", "16 (0002)", "32 (0001)"]
    assert table[2] == ["score", "4", "5"]


def test_nothing_complete(plan):
    outcomes = make_trials(plan, [None, None])
    assert sweep_report.best_trials(plan, outcomes) == {}
    assert "2 trials: 2 failed" in sweep_report.format_report(plan, outcomes, "x")


def test_the_table_of_all_trials(studied):
    outcomes = make_trials(studied, [1.0, None, 0.25])
    rows = list(csv.DictReader(io.StringIO(sweep_report.format_csv(studied, outcomes))))
    assert [row["state"] for row in rows] == ["complete", "failed", "complete"]
    assert [row["score"] for row in rows] == ["1.0", "", "0.25"]
    assert [row["batch_size"] for row in rows] == ["16", "32", "16"]
    assert rows[2][TAG] == "2.5"
    assert rows[1]["error"] == "no memory"


@pytest.mark.slow
def test_a_panel_for_every_parameter(plan, studied):
    def pixels(plan, scores):
        png = sweep_report.draw_scores(plan, make_trials(plan, scores))
        return np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))

    two, three = pixels(plan, [1.0, 2.0]), pixels(studied, [1.0, 2.0, None, 1.5])
    assert three.shape[1] > 1.2 * two.shape[1]
    # A point moves with its score.
    one, other = pixels(plan, [1.0, 2.0, 1.5]), pixels(plan, [1.0, 2.0, 1.1])
    assert one.shape == other.shape
    assert np.any(one != other)


def test_sections_are_drawn(plan):
    space = {"l2": choices((None, '{"scale": 0.1}'))}
    plan = dataclasses.replace(plan, space=space)
    color = matplotlib.rcParams["axes.facecolor"]
    assert sweep_report.draw_scores(plan, make_trials(plan, [1.0, 2.0])).startswith(b"\x89PNG")
    assert matplotlib.rcParams["axes.facecolor"] == color  # That of other figures is their own.


def test_values_and_metrics_for_tensorboard(plan, tmp_path):
    outcomes = make_trials(plan, [1.0, None, 2.0])
    for _ in range(2):  # nothing is new the second time
        sweep_report.write_tables(plan, tmp_path, outcomes)
    assert sorted(path.name for path in (tmp_path / "hparams").iterdir()) == ["0000", "0002"]
    for outcome in (outcomes[0], outcomes[2]):
        folder = tmp_path / "hparams" / sweep_report.name_of(outcome)
        assert len(list(folder.iterdir())) == 1
        events = EventAccumulator(str(folder), size_guidance={"tensors": 0}).Reload()
        (score,) = events.Tensors("score")
        assert tensor_util.make_ndarray(score.tensor_proto) == outcome.value
        assert TAG in events.Tags()["tensors"]
        content = events.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
        found = HParamsPluginData.FromString(content).session_start_info.hparams
        assert {path: found[path].number_value for path in found} == outcome.params
