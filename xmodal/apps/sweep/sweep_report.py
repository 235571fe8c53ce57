"""Results of a sweep: the best trials and their metrics, a table of all trials, plots."""

import contextlib
import json
import pathlib
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import optuna
from optuna.trial import FrozenTrial, TrialState

from xmodal.apps.analysis.canvas import to_png
from xmodal.apps.sweep.plan import Plan, describe
from xmodal.core.event_writer import EventWriter
from xmodal.core.result_files import csv_text, write_files
from xmodal.core.text_table import Rows, format_document
from xmodal.evals.reports.summary import select_curves

_SHOWN = 10  # Rows of the report's table of trials.


def name_of(trial: FrozenTrial) -> str:
    """Returns the name of a trial's run folder, the same for every attempt."""
    first = optuna.storages.RetryHeartbeatStaleTrialCallback.retried_trial_number(trial)
    return f"{trial.number if first is None else first:04d}"


def best_first(plan: Plan, trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """Returns the complete trials, best first.

    Where scores are equal, as a saturated R@10, the metrics decide that decide between checkpoints
    (`BestCheckpointConfig.rank`); of trials that are equal in these, too, the first is the best.
    """
    complete = [each for each in trials if each.state == TrialState.COMPLETE]

    def rank(trial: FrozenTrial) -> tuple[float, ...]:
        return (plan.sign * (trial.value or 0.0), *trial.user_attrs.get("rank", ())[1:])

    return sorted(complete, key=rank, reverse=True)


def best_trials(plan: Plan, trials: Sequence[FrozenTrial]) -> dict[str, FrozenTrial]:
    """Returns the best complete trial for each value of the studied parameter, as a string.

    Without a studied parameter, the only key is "".
    """
    path, values = plan.studied or ("", ("",))
    found: dict[str, FrozenTrial] = {}
    for each in best_first(plan, trials):
        found.setdefault(_format_value(each.user_attrs["values"].get(path, "")), each)
    return {key: found[key] for key in map(_format_value, values) if key in found}


def write_report(plan: Plan, folder: pathlib.Path, trials: Sequence[FrozenTrial]) -> None:
    """Writes and prints the report, with a plot of the score over each parameter."""
    write_tables(plan, folder, trials)
    sections = _sections(plan, trials, folder)
    text = format_document(sections)
    latex = format_document(sections, "latex")
    contents: dict[str, str | bytes] = {"report.md": text, "report.tex": latex}
    if complete := best_first(plan, trials):
        contents["scores.png"] = _draw_scores(plan, complete)
    write_files(folder, contents)
    print(text, f"{folder}: {', '.join([*contents, 'results.csv'])}", sep="\n", flush=True)


def write_tables(plan: Plan, folder: pathlib.Path, trials: Sequence[FrozenTrial]) -> None:
    """Writes `results.csv`, and new complete trials for TensorBoard's HPARAMS tab."""
    write_files(folder, {"results.csv": format_csv(plan, trials)})
    for each in trials:
        own = folder / "hparams" / name_of(each)
        if each.state == TrialState.COMPLETE and not own.exists():
            with contextlib.closing(EventWriter(own)) as writer:
                values = values_of(plan, each)
                writer.write_settings(dict(zip(plan.parameters, values, strict=True)))
                curves = select_curves(each.user_attrs["metrics"])
                writer.write_scalars(0, {"score": each.value, **curves})


def values_of(plan: Plan, trial: FrozenTrial) -> list[str]:
    """Returns the values of a trial as shown in tables, in the order of the parameters."""
    values = trial.user_attrs.get("values", {})
    return [_format_value(values.get(path, "")) for path in plan.parameters]


def _sections(plan: Plan, trials: Sequence[FrozenTrial], folder: pathlib.Path) -> list[str | Rows]:
    """The best trials with all of their metrics, and the space."""
    states = [each.state.name.lower() for each in trials]
    counts = [f"{states.count(state)} {state}" for state in dict.fromkeys(states)]
    order = "lowest" if plan.sign < 0 else "highest"
    sections: list[str | Rows] = [
        f"# Sweep of {plan.config.name}",
        f"{len(trials)} trials: {', '.join(counts)}. Score: `{plan.select}` of the best checkpoint,"
        f" {order} first; seed of the draws {plan.seed}.",
    ]
    if best := best_trials(plan, trials):
        sections += ["## Best", "Values, and the final evaluation of these checkpoints:"]
        sections += [_tabulate_best(plan, best)]
        sections += ["\n".join(f"- {folder}/trials/{name_of(each)}" for each in best.values())]
        sections += ["## Trials", f"The best {_SHOWN}; `results.csv` has all."]
        shown = best_first(plan, trials)[:_SHOWN]
        rows = [[name_of(each), f"{each.value:.4g}", *values_of(plan, each)] for each in shown]
        sections.append([["trial", "score", *plan.parameters], *rows])
    failed = [each for each in trials if each.state == TrialState.FAIL]
    if failed:
        lines = [f"- {name_of(each)}: {each.user_attrs.get('error')}" for each in failed]
        sections += ["## Failed", "\n".join(lines)]
    space = [[path, describe(each)] for path, each in plan.parameters.items()]
    return [*sections, "## Space", [["parameter", "values"], *space]]


def format_csv(plan: Plan, trials: Sequence[FrozenTrial]) -> str:
    """Returns a table with one row per trial: its state, score, values and metrics."""
    tags = list(dict.fromkeys(tag for x in trials for tag in x.user_attrs.get("metrics", {})))
    rows: list[list[object]] = [
        ["trial", "state", "score", "seconds", *plan.parameters, *tags, "error"]
    ]
    for each in trials:
        about = each.user_attrs
        score = each.value if each.state == TrialState.COMPLETE else ""
        seconds = each.duration.total_seconds() if each.duration else ""
        values = [about.get("values", {}).get(path, "") for path in plan.parameters]
        metrics = [about.get("metrics", {}).get(tag, "") for tag in tags]
        head = [name_of(each), each.state.name.lower(), score, seconds]
        rows.append([*head, *values, *metrics, about.get("error", "")])
    return csv_text(rows)


def _draw_scores(plan: Plan, trials: Sequence[FrozenTrial]) -> bytes:
    """Returns a PNG with Optuna's slice plot: the score of complete trials over each parameter."""
    import matplotlib  # Slow to import.

    study = plan.make_study()
    study.add_trials(trials)
    # Optuna changes the style of all figures of the process.
    with warnings.catch_warnings(action="ignore"), matplotlib.rc_context():
        axes = optuna.visualization.matplotlib.plot_slice(study, target_name=plan.select)
        figure = np.asarray(axes, dtype=object).flat[0].figure
        figure.set_size_inches(3.4 * len(plan.space) + 1, 3.4)
        return to_png(figure, bbox_inches="tight")


def _format_value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return value if isinstance(value, str) else json.dumps(value)


def _tabulate_best(plan: Plan, best: dict[str, FrozenTrial]) -> Rows:
    """A column per trial: its score, values, and metrics with their intervals."""
    found = [each.user_attrs["metrics"] for each in best.values()]
    rows = [["", *(f"{key} ({name_of(x)})" if key else name_of(x) for key, x in best.items())]]
    rows.append(["score", *(f"{each.value:.4g}" for each in best.values())])
    values = zip(*(values_of(plan, each) for each in best.values()), strict=True)
    rows += [[path, *cells] for path, cells in zip(plan.parameters, values, strict=True)]
    for tag in dict.fromkeys(tag for metrics in found for tag in select_curves(metrics)):
        rows.append([tag, *(_format_metric(tag, metrics) for metrics in found)])
    return rows


def _format_metric(tag: str, metrics: dict[str, float]) -> str:
    low, high = metrics.get(f"{tag}_low"), metrics.get(f"{tag}_high")
    interval = "" if low is None or high is None else f" ({low:.4g} to {high:.4g})"
    return f"{metrics[tag]:.4g}{interval}" if tag in metrics else "-"
