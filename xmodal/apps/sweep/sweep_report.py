"""Results of a sweep: the best trials and their metrics, a table of all trials, plots."""

import contextlib
import functools
import json
import pathlib
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import optuna
from optuna.trial import FrozenTrial, TrialState

from xmodal.apps.analysis.canvas import to_png
from xmodal.apps.sweep.plan import Plan
from xmodal.apps.sweep.space import describe
from xmodal.core.event_writer import EventWriter
from xmodal.core.result_files import csv_text, write_files
from xmodal.core.text_table import Bold, Rows, format_document
from xmodal.evals.reports.best_values import find_best
from xmodal.evals.reports.summary import select_curves

# Rows of the report's table of trials.
_SHOWN = 10
_STATES = {"COMPLETE": "complete", "FAIL": "failed", "RUNNING": "running", "WAITING": "waiting"}


def name_of(trial: optuna.Trial | FrozenTrial) -> str:
    """Returns the name of a trial's run folder."""
    return f"{trial.user_attrs['trial']:04d}"


def score_of(trial: FrozenTrial) -> float:
    """Returns the score of a complete trial."""
    assert trial.value is not None
    return trial.value


def best_first(plan: Plan, trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """Returns the complete trials, best first.

    Where scores are equal, as a saturated R@10, the metrics decide that decide between checkpoints
    (`SelectConfig.rank`); of trials that are equal in these, too, the first is the best.
    """
    complete = [each for each in trials if each.state == TrialState.COMPLETE]
    return sorted(complete, key=functools.partial(_rank, plan), reverse=True)


def _rank(plan: Plan, trial: FrozenTrial) -> tuple[float, ...]:
    """The score and the metrics that break ties, all higher if better."""
    return (plan.sign * score_of(trial), *trial.user_attrs.get("rank", ())[1:])


def _explain_tie(plan: Plan, trials: Sequence[FrozenTrial]) -> str:
    """A sentence on what orders the trials of the best score; "" if it is that of one."""
    ranks = [_rank(plan, each) for each in best_first(plan, trials)]
    tied = [rank for rank in ranks if rank[0] == ranks[0][0]]
    if len(tied) < 2:
        return ""
    differ = len(set(tied)) > 1
    how = "further metrics of the same table decide" if differ else "the first is taken"
    return f"The best score is that of {len(tied)} trials; {how}."


def best_trials(plan: Plan, trials: Sequence[FrozenTrial]) -> dict[str, FrozenTrial]:
    """Returns the best complete trial for each value of the studied parameter, as a string.

    Without a studied parameter, the only key is "".
    """
    path, values = plan.studied or ("", ("",))
    found: dict[str, FrozenTrial] = {}
    for each in best_first(plan, trials):
        found.setdefault(format_value(each.user_attrs["values"].get(path, "")), each)
    return {key: found[key] for key in map(format_value, values) if key in found}


def write_report(plan: Plan, folder: pathlib.Path, trials: Sequence[FrozenTrial]) -> None:
    """Writes and prints the report, with a plot of the score over each parameter."""
    write_tables(plan, folder, trials)
    text = format_report(plan, trials, str(folder))
    latex = format_report(plan, trials, str(folder), "latex")
    contents: dict[str, str | bytes] = {"report.md": text, "report.tex": latex}
    lines = [f"Report:  {folder / 'report.md'}", f"Trials:  {folder / 'results.csv'}"]
    if any(each.state == TrialState.COMPLETE for each in trials):
        contents["scores.png"] = draw_scores(plan, trials)
        lines.append(f"Plots:   {folder / 'scores.png'}")
        lines.append(f"  tensorboard --logdir {folder / 'hparams'}")
    write_files(folder, contents)
    print(text, *lines, sep="\n", flush=True)


def write_tables(plan: Plan, folder: pathlib.Path, trials: Sequence[FrozenTrial]) -> None:
    """Writes `results.csv`, and new complete trials for TensorBoard's HPARAMS tab."""
    write_files(folder, {"results.csv": format_csv(plan, trials)})
    for each in trials:
        own = folder / "hparams" / name_of(each)
        if each.state != TrialState.COMPLETE or own.exists():
            continue
        with contextlib.closing(EventWriter(own)) as writer:
            writer.write_settings(each.params)
            curves = select_curves(each.user_attrs["metrics"])
            writer.write_scalars(0, {"score": each.value, **curves})


def format_report(
    plan: Plan, trials: Sequence[FrozenTrial], folder: str, format: str = "markdown"
) -> str:
    """Returns the report: the best trials with all of their metrics, and the space.

    `format` is "markdown" or "latex", see `text_table.format_document`.
    """
    states = [_STATES[each.state.name] for each in trials]
    counts = [f"{n} {state}" for state in _STATES.values() if (n := states.count(state))]
    sections: list[str | Rows] = [
        f"# Sweep of {plan.config.name}",
        f"{len(trials)} trials: {', '.join(counts)}. Score: `{plan.select}` of the best checkpoint,"
        f" {'lowest' if plan.sign < 0 else 'highest'} first; seed of the draws {plan.seed}.",
    ]
    if tie := _explain_tie(plan, trials):
        sections.append(tie)
    if best := best_trials(plan, trials):
        sections += ["## Best", "Values, and the final evaluation of these checkpoints:"]
        sections += [_tabulate_best(plan, best)]
        sections += ["\n".join(f"- {folder}/trials/{name_of(each)}" for each in best.values())]
        sections += ["## Trials", f"The best {_SHOWN}; `results.csv` has all."]
        sections += [_tabulate_trials(plan, best_first(plan, trials)[:_SHOWN])]
    failed = [each for each in trials if each.state == TrialState.FAIL]
    if failed:
        lines = [f"- {name_of(each)}: {each.user_attrs.get('error')}" for each in failed]
        sections += ["## Failed", "\n".join(lines)]
    space = [[path, describe(each)] for path, each in plan.parameters.items()]
    sections += ["## Space", [["parameter", "values"], *space]]
    return format_document(sections, format)


def format_csv(plan: Plan, trials: Sequence[FrozenTrial]) -> str:
    """Returns a table with one row per trial: its state, score, values and metrics."""
    tags = list(dict.fromkeys(tag for x in trials for tag in x.user_attrs.get("metrics", {})))
    rows: list[Sequence[object]] = [
        ["trial", "state", "score", "seconds", *plan.parameters, *tags, "error"]
    ]
    for each in trials:
        known = {tag: "" for tag in tags} | each.user_attrs.get("metrics", {})
        score = each.value if each.state == TrialState.COMPLETE else ""
        seconds = each.duration.total_seconds() if each.duration else ""
        values = [each.user_attrs["values"][path] for path in plan.parameters]
        head = [name_of(each), _STATES[each.state.name], score, seconds]
        rows.append([*head, *values, *known.values(), each.user_attrs.get("error", "")])
    return csv_text(rows)


def draw_scores(plan: Plan, trials: Sequence[FrozenTrial]) -> bytes:
    """Returns a PNG with Optuna's slice plot: the score over each parameter."""
    import matplotlib  # Slow to import.

    study = optuna.create_study(direction="minimize" if plan.sign < 0 else "maximize")
    study.add_trials([each for each in trials if each.state == TrialState.COMPLETE])
    # Optuna changes the style of all figures of the process.
    with warnings.catch_warnings(action="ignore"), matplotlib.rc_context():
        axes = optuna.visualization.matplotlib.plot_slice(study, target_name=plan.select)
        figure = np.asarray(axes, dtype=object).flat[0].figure
        figure.set_size_inches(3.4 * len(plan.parameters) + 1, 3.4)
        return to_png(figure, bbox_inches="tight")


def format_value(value: Any) -> str:
    """Returns a value as shown in tables."""
    return value if isinstance(value, str) else json.dumps(value)


def _tabulate_best(plan: Plan, best: dict[str, FrozenTrial]) -> Rows:
    """A column per trial; the best of a metric and all whose intervals overlap its own are bold."""
    found = [each.user_attrs["metrics"] for each in best.values()]
    rows = [["", *(f"{key} ({name_of(x)})" if key else name_of(x) for key, x in best.items())]]
    rows.append(["score", *(f"{score_of(each):.4g}" for each in best.values())])
    for path in plan.parameters:
        rows.append([path, *(format_value(x.user_attrs["values"][path]) for x in best.values())])
    tags = dict.fromkeys(tag for metrics in found for tag in select_curves(metrics))
    for tag in tags:
        if not (tag.endswith("_std") and tag.removesuffix("_std") in tags):
            cells = []
            for metrics in found:
                low, high = metrics.get(f"{tag}_low"), metrics.get(f"{tag}_high")
                interval = "" if low is None or high is None else f" ({low:.4g} to {high:.4g})"
                cells.append(f"{metrics[tag]:.4g}{interval}" if tag in metrics else "-")
            marked = zip(cells, find_best(tag, found), strict=True)
            rows.append([tag, *(Bold(cell) if best else cell for cell, best in marked)])
    return rows


def _tabulate_trials(plan: Plan, trials: Sequence[FrozenTrial]) -> Rows:
    rows = [["trial", "score", *plan.parameters]]
    for each in trials:
        values = [format_value(each.user_attrs["values"][path]) for path in plan.parameters]
        rows.append([name_of(each), f"{score_of(each):.4g}", *values])
    return rows
