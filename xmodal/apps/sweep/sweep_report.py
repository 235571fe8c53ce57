"""Results of a sweep: the best trials and their metrics, and a table of all trials."""

import json
import pathlib
from collections.abc import Sequence
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState

from xmodal.apps.sweep.plan import Plan, describe
from xmodal.core.files import csv_text, format_json, write_files
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
        found.setdefault(_format(each.user_attrs["values"].get(path, "")), each)
    return {key: found[key] for key in map(_format, values) if key in found}


def write_report(plan: Plan, folder: pathlib.Path, trials: Sequence[FrozenTrial]) -> None:
    """Writes and prints the report, and writes `results.csv`.

    Without a studied parameter, it also writes the metrics of the best trial, `metrics.json`.
    """
    states = [each.state.name.lower() for each in trials]
    counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    order = "lowest" if plan.sign < 0 else "highest"
    sections: list[str | Rows] = [
        f"# Sweep of {plan.config.name}",
        f"{len(trials)} trials: {counts}. Score: `{plan.select}` of the best checkpoint, {order} "
        f"first; seed of the draws {plan.seed}.",
    ]
    if best := best_trials(plan, trials):
        folders = "\n".join(f"- {folder}/trials/{name_of(each)}" for each in best.values())
        ranked = best_first(plan, trials)[:_SHOWN]
        rows = [[name_of(each), f"{each.value:.4g}", *_values(plan, each)] for each in ranked]
        sections += [
            *("## Best", "Values, and the final evaluation of these checkpoints:"),
            *(_tabulate_best(plan, best), folders),
            *("## Trials", f"The best {_SHOWN}; `results.csv` has all."),
            [["trial", "score", *plan.parameters], *rows],
        ]
    if failed := [each for each in trials if each.state == TrialState.FAIL]:
        lines = [f"- {name_of(each)}: {each.user_attrs.get('error')}" for each in failed]
        sections += ["## Failed", "\n".join(lines)]
    space = [[path, describe(each)] for path, each in plan.parameters.items()]
    sections += ["## Space", [["parameter", "values"], *space]]
    text = format_document(sections)
    contents = {"report.md": text, "report.tex": format_document(sections, "latex")}
    if not plan.studied and best:
        contents["metrics.json"] = format_json(best[""].user_attrs["metrics"])
    write_files(folder, contents | {"results.csv": format_csv(plan, trials)})
    print(text, f"{folder}: report.md, report.tex, results.csv", sep="\n", flush=True)


def format_csv(plan: Plan, trials: Sequence[FrozenTrial]) -> str:
    """Returns a table with one row per trial: its state, score, values and metrics."""
    tags = list(dict.fromkeys(tag for x in trials for tag in x.user_attrs.get("metrics", {})))
    head = ["trial", "state", "score", "seconds", *plan.parameters, *tags, "error"]
    rows: list[list[object]] = [head]
    for each in trials:
        about = each.user_attrs
        score = each.value if each.state == TrialState.COMPLETE else ""
        seconds = each.duration.total_seconds() if each.duration else ""
        numbers = {**about.get("values", {}), **about.get("metrics", {})}
        cells = [numbers.get(key, "") for key in (*plan.parameters, *tags)]
        state = each.state.name.lower()
        rows.append([name_of(each), state, score, seconds, *cells, about.get("error", "")])
    return csv_text(rows)


def _values(plan: Plan, trial: FrozenTrial) -> list[str]:
    """The values of a trial as shown in tables, in the order of the parameters."""
    values = trial.user_attrs.get("values", {})
    return [_format(values.get(path, "")) for path in plan.parameters]


def _format(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return value if isinstance(value, str) else json.dumps(value)


def _tabulate_best(plan: Plan, best: dict[str, FrozenTrial]) -> Rows:
    """A column per trial: its score, values, and metrics with their intervals."""
    columns = []
    for key, trial in best.items():
        name, metrics = name_of(trial), trial.user_attrs["metrics"]
        column = {"": f"{key} ({name})" if key else name, "score": f"{trial.value:.4g}"}
        column |= zip(plan.parameters, _values(plan, trial), strict=True)
        for tag, value in select_curves(metrics).items():
            low, high = metrics.get(f"{tag}_low"), metrics.get(f"{tag}_high")
            interval = "" if low is None or high is None else f" ({low:.4g} to {high:.4g})"
            column[tag] = f"{value:.4g}{interval}"
        columns.append(column)
    names = dict.fromkeys(name for column in columns for name in column)
    return [[name, *(column.get(name, "-") for column in columns)] for name in names]
