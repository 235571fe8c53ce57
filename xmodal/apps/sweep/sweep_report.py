"""Results of a sweep: the best trials, a table of their metrics, a table of all trials."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from xmodal.apps.sweep.plan import Plan
from xmodal.apps.sweep.record import Outcome
from xmodal.apps.sweep.space import describe
from xmodal.base.result_files import csv_text
from xmodal.base.text_table import format_table
from xmodal.evals.reports.summary import select_curves

_ENDS = ("_low", "_high", "_std")
# Rows in the report's table of trials; `results.csv` has all.
_SHOWN = 10


def best_first(plan: Plan, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Returns the complete trials, ordered by score, then number."""
    complete = [(plan.sign * each.score, each) for each in outcomes if each.score is not None]
    return [each for _, each in sorted(complete, key=lambda pair: -pair[0])]


def best_trials(plan: Plan, outcomes: Sequence[Outcome]) -> dict[str, Outcome]:
    """Returns the best complete trial for each value of the studied parameter, as a string.

    Without a studied parameter, the only key is "".
    """
    ordered = best_first(plan, outcomes)
    if plan.studied is None:
        return {"": ordered[0]} if ordered else {}
    path, choice = plan.studied
    keys = [format_value(value) for value in choice.values]
    found = {format_value(each.trial.values[path]): each for each in reversed(ordered)}
    return {key: found[key] for key in keys if key in found}


def format_report(plan: Plan, outcomes: Sequence[Outcome], folder: str) -> str:
    """Returns the report as Markdown: the best trials with all of their metrics, and the space."""
    counts = {state: 0 for state in ("complete", "failed", "running", "waiting")}
    for each in outcomes:
        counts[each.state] += 1
    described = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    sections = [
        f"# Sweep of {plan.config.name}",
        f"{len(outcomes)} trials: {described}. Score: `{plan.select}` of the best checkpoint, "
        f"{'lowest' if plan.sign < 0 else 'highest'} first; seed of the draws {plan.seed}.",
    ]
    best = best_trials(plan, outcomes)
    if best:
        sections += ["## Best", _format_best(plan, best)]
        sections += [
            "Final evaluation of these checkpoints:",
            _format_metrics(best),
            "\n".join(f"- {folder}/trials/{each.trial.name}" for each in best.values()),
        ]
        sections += ["## Trials", _format_trials(plan, outcomes)]
    failed = [each for each in outcomes if each.state == "failed"]
    if failed:
        sections += ["## Failed", "\n".join(f"- {e.trial.name}: {e.error}" for e in failed)]
    space = [["parameter", "values"]]
    space += [[path, describe(each)] for path, each in plan.parameters.items()]
    sections += ["## Space", format_table(space)]
    return "\n\n".join(sections) + "\n"


def format_csv(plan: Plan, outcomes: Sequence[Outcome]) -> str:
    """Returns a table with one row per trial: its state, score, values and metrics."""
    tags = list(dict.fromkeys(tag for each in outcomes for tag in each.metrics))
    header = ["trial", "draw", "state", "score", "seconds", *plan.parameters, *tags, "error"]
    rows: list[list[object]] = []
    for each in outcomes:
        values = [each.trial.values[path] for path in plan.parameters]
        metrics = [each.metrics.get(tag, "") for tag in tags]
        score = "" if each.score is None else each.score
        head = [each.trial.name, each.trial.draw, each.state, score, round(each.seconds, 1)]
        rows.append([*head, *values, *metrics, each.error])
    return csv_text([header, *rows])


def format_value(value: Any) -> str:
    """Returns a value as shown in tables."""
    return value if isinstance(value, str) else json.dumps(value)


def format_values(values: Mapping[str, Any]) -> str:
    """Returns values by path on one line."""
    return ", ".join(f"{path}={format_value(value)}" for path, value in values.items())


def _format_best(plan: Plan, best: Mapping[str, Outcome]) -> str:
    rows = [["", *(_name_column(key, each) for key, each in best.items())]]
    rows.append(["score", *(f"{each.score:.4g}" for each in best.values())])
    for path in plan.parameters:
        rows.append([path, *(format_value(each.trial.values[path]) for each in best.values())])
    return format_table(rows)


def _name_column(key: str, outcome: Outcome) -> str:
    """Returns the head of a column: the studied value and the trial."""
    return f"{key} ({outcome.trial.name})" if key else outcome.trial.name


def _format_metrics(best: Mapping[str, Outcome]) -> str:
    tags = dict.fromkeys(tag for each in best.values() for tag in select_curves(each.metrics))
    rows = [["", *(_name_column(key, each) for key, each in best.items())]]
    for tag in tags:
        if not any(tag.endswith(end) and tag.removesuffix(end) in tags for end in _ENDS):
            rows.append([tag, *(_format_metric(each.metrics, tag) for each in best.values())])
    return format_table(rows)


def _format_metric(metrics: Mapping[str, float], tag: str) -> str:
    if tag not in metrics:
        return "-"
    low, high = metrics.get(f"{tag}_low"), metrics.get(f"{tag}_high")
    interval = "" if low is None or high is None else f" ({low:.4g} to {high:.4g})"
    return f"{metrics[tag]:.4g}{interval}"


def _format_trials(plan: Plan, outcomes: Sequence[Outcome]) -> str:
    complete = best_first(plan, outcomes)
    rows = [["trial", "score", *plan.parameters]]
    for each in complete[:_SHOWN]:
        values = [format_value(each.trial.values[path]) for path in plan.parameters]
        rows.append([each.trial.name, f"{each.score:.4g}", *values])
    note = f"\n\nThe best {_SHOWN}; `results.csv` has all." if len(complete) > _SHOWN else ""
    return format_table(rows) + note
