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
from xmodal.apps.sweep.plan import Plan
from xmodal.apps.sweep.space import describe
from xmodal.core.event_writer import EventWriter
from xmodal.core.result_files import csv_text, write_files
from xmodal.core.text_table import Bold, Rows, format_document
from xmodal.evals.reports.best_values import find_best
from xmodal.evals.reports.summary import select_curves

# Rows of the report's table of trials.
_SHOWN = 10


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
    return sorted(complete, key=lambda each: _rank(plan, each), reverse=True)


def _rank(plan: Plan, trial: FrozenTrial) -> tuple[float, ...]:
    """The score and the metrics that break ties, all higher if better."""
    return (plan.sign * (trial.value or 0.0), *trial.user_attrs.get("rank", ())[1:])


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
    sections = _sections(plan, trials, folder)
    text = format_document(sections)
    contents: dict[str, str | bytes] = {
        "report.md": text,
        "report.tex": format_document(sections, "latex"),
    }
    if complete := best_first(plan, trials):
        contents["scores.png"] = draw_scores(plan, complete)
    write_files(folder, contents)
    print(text, f"{folder}: {', '.join([*contents, 'results.csv'])}", sep="\n", flush=True)


def write_tables(plan: Plan, folder: pathlib.Path, trials: Sequence[FrozenTrial]) -> None:
    """Writes `results.csv`, and new complete trials for TensorBoard's HPARAMS tab."""
    write_files(folder, {"results.csv": format_csv(plan, trials)})
    for each in trials:
        own = folder / "hparams" / name_of(each)
        if each.state == TrialState.COMPLETE and not own.exists():
            with contextlib.closing(EventWriter(own)) as writer:
                values = each.user_attrs["values"]
                writer.write_settings({path: format_value(x) for path, x in values.items()})
                curves = select_curves(each.user_attrs["metrics"])
                writer.write_scalars(0, {"score": each.value, **curves})


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
        ordered = best_first(plan, trials)
        ranks = [_rank(plan, each) for each in ordered]
        if tied := [rank for rank in ranks[1:] if rank[0] == ranks[0][0]]:
            differ = len({ranks[0], *tied}) > 1
            how = "further metrics of the same table decide" if differ else "the first is taken"
            sections.append(f"The best score is that of {1 + len(tied)} trials; {how}.")
        sections += ["## Best", "Values, and the final evaluation of these checkpoints:"]
        sections += [_tabulate_best(plan, best)]
        sections += ["\n".join(f"- {folder}/trials/{name_of(each)}" for each in best.values())]
        sections += ["## Trials", f"The best {_SHOWN}; `results.csv` has all."]
        rows = [["trial", "score", *plan.parameters]]
        for each in ordered[:_SHOWN]:
            values = [format_value(each.user_attrs["values"][path]) for path in plan.parameters]
            rows.append([name_of(each), f"{each.value:.4g}", *values])
        sections.append(rows)
    failed = [each for each in trials if each.state == TrialState.FAIL]
    if failed:
        lines = [f"- {name_of(each)}: {each.user_attrs.get('error')}" for each in failed]
        sections += ["## Failed", "\n".join(lines)]
    space = [[path, describe(each)] for path, each in plan.parameters.items()]
    return [*sections, "## Space", [["parameter", "values"], *space]]


def format_csv(plan: Plan, trials: Sequence[FrozenTrial]) -> str:
    """Returns a table with one row per trial: its state, score, values and metrics."""
    tags = list(dict.fromkeys(tag for x in trials for tag in x.user_attrs.get("metrics", {})))
    rows: list[Sequence[object]] = [
        ["trial", "state", "score", "seconds", *plan.parameters, *tags, "error"]
    ]
    for each in trials:
        about = each.user_attrs
        values = [about.get("values", {}).get(path, "") for path in plan.parameters]
        metrics = [about.get("metrics", {}).get(tag, "") for tag in tags]
        score = each.value if each.state == TrialState.COMPLETE else ""
        seconds = each.duration.total_seconds() if each.duration else ""
        head = [name_of(each), each.state.name.lower(), score, seconds]
        rows.append([*head, *values, *metrics, about.get("error", "")])
    return csv_text(rows)


def draw_scores(plan: Plan, trials: Sequence[FrozenTrial]) -> bytes:
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


def format_value(value: Any) -> str:
    """Returns a value as shown in tables."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return value if isinstance(value, str) else json.dumps(value)


def _tabulate_best(plan: Plan, best: dict[str, FrozenTrial]) -> Rows:
    """A column per trial; the best of a metric and all whose intervals overlap its own are bold."""
    found = [each.user_attrs["metrics"] for each in best.values()]
    rows = [["", *(f"{key} ({name_of(x)})" if key else name_of(x) for key, x in best.items())]]
    rows.append(["score", *(f"{each.value:.4g}" for each in best.values())])
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
            rows.append([tag, *(Bold(cell) if is_best else cell for cell, is_best in marked)])
    return rows
