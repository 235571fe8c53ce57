"""A whole random search, from its checks to its report."""

import contextlib
import dataclasses
import os
import pathlib
import time
from collections.abc import Iterator, Sequence

from absl import logging
from ml_collections import ConfigDict

from xmodal.apps.sweep.check import check_values, resolve_metric
from xmodal.apps.sweep.distributions import Choice
from xmodal.apps.sweep.hparams import write_hparams
from xmodal.apps.sweep.plan import Plan, Trial, check_same, save
from xmodal.apps.sweep.plots import draw_scores
from xmodal.apps.sweep.record import Record
from xmodal.apps.sweep.space import Space
from xmodal.apps.sweep.sweep_report import format_csv, format_report, format_value
from xmodal.apps.sweep.worker import run_trials
from xmodal.base.result_files import check_writable, write_files
from xmodal.base.text_table import format_table
from xmodal.evals.metrics import lower_is_better
from xmodal.runs.folder import folder_lock

_WAIT_SECONDS = 0.5


def make_plan(
    config: ConfigDict,
    space: Space,
    studied: tuple[str, Choice] | None,
    *,
    seed: int,
    select: str | None,
) -> Plan:
    """Returns the plan of a search after checking its values and metric.

    Args:
      config: config that all trials share.
      space: drawn parameters.
      studied: path and values of the studied parameter, or None.
      seed: seed of the draws.
      select: see `check.resolve_metric`.

    Raises:
      UserError: see `check.check_values` and `check.resolve_metric`.
      data.DatasetMissingError: a dataset is missing; says how to get it.
    """
    plan = Plan(config, space, studied, seed, "", "")
    logging.info("Checking %s of the search space.", ", ".join(plan.parameters))
    parts = check_values(config, plan.parameters)
    metric = resolve_metric(parts, select)
    # A metric of --select may be better where that of the config is worse.
    mode = parts.settings.select.mode
    if mode != "last":
        mode = "min" if lower_is_better(metric) else "max"
    return dataclasses.replace(plan, select=metric, mode=mode)


def format_draws(plan: Plan, draws: int) -> str:
    """Returns a table with the values of every trial."""
    trials = list(plan.trials(draws))
    rows = [["trial", *plan.parameters]]
    rows += [[each.name, *map(format_value, each.values.values())] for each in trials]
    return f"{format_table(rows)}\n\n{len(trials)} trials, compared by {plan.select}."


def search(
    plan: Plan, folder: pathlib.Path, *, draws: int, retry_failed: bool, keep_all: bool
) -> bool:
    """Runs the unfinished trials of a plan and writes the report.

    Args:
      plan: plan from `make_plan`.
      folder: folder of the sweep; a stopped sweep resumes.
      draws: total number of draws; more than before adds trials.
      retry_failed: whether failed trials are run again.
      keep_all: see `worker.run_trials`.

    Returns:
      False if a signal stopped it.

    Raises:
      UserError: the folder has another sweep or is not writable; or see `worker.run_trials`.
    """
    check_writable(folder)
    with _alone(folder):
        check_same(plan, folder)
        record = Record(folder, plan)
        every = list(plan.trials(max(draws, record.draws)))
        save(plan, folder, every)
        trials = [trial for trial in every if trial.draw < draws]
        record.add(trials)
        if retry_failed:
            found = record.outcomes(trials)
            record.add_again(each.trial for each in found if each.state == "failed")

    def write_tables() -> None:
        outcomes = record.outcomes(every)
        write_files(folder, {"results.csv": format_csv(plan, outcomes)})
        write_hparams(folder / "hparams", outcomes)

    is_done = run_trials(folder, plan, record, trials, keep_all=keep_all, after_each=write_tables)
    write_tables()
    _report(plan, folder, record, every)
    if not is_done:
        logging.warning("Stopped; the same command resumes the sweep.")
    return is_done


def _report(plan: Plan, folder: pathlib.Path, record: Record, trials: Sequence[Trial]) -> None:
    outcomes = record.outcomes(trials)
    text = format_report(plan, outcomes, os.fspath(folder))
    contents: dict[str, str | bytes] = {"report.md": text}
    lines = [f"Report:  {folder / 'report.md'}", f"Trials:  {folder / 'results.csv'}"]
    if any(each.score is not None for each in outcomes):
        contents["scores.png"] = draw_scores(plan, outcomes)
        lines.append(f"Plots:   {folder / 'scores.png'}")
        lines.append(f"  tensorboard --logdir {folder / 'hparams'}")
    write_files(folder, contents)
    print(text, *lines, sep="\n", flush=True)


@contextlib.contextmanager
def _alone(folder: pathlib.Path) -> Iterator[None]:
    """Waits until no other process is setting up the sweep, and makes others wait."""
    with contextlib.ExitStack() as stack:
        while True:
            try:
                stack.enter_context(folder_lock.hold(folder))
                break
            except folder_lock.FolderInUseError:
                time.sleep(_WAIT_SECONDS)
        yield
