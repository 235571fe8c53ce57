"""Runs the trials of a sweep one by one; several processes may do so concurrently.

A process claims a trial by locking a folder. The claim of a dead process is free, and its trial
resumes from the last checkpoint of its run.
"""

import contextlib
import gc
import json
import pathlib
import shutil
import time
import traceback
from collections.abc import Callable, Iterator, Sequence

import jax
from absl import logging
from tqdm import tqdm

from xmodal.apps.sweep.plan import Plan, Trial
from xmodal.apps.sweep.record import Outcome, Record
from xmodal.apps.sweep.sweep_report import best_first, best_trials, format_values
from xmodal.base.config import UserError
from xmodal.base.disk_errors import DiskError
from xmodal.data import DatasetMissingError
from xmodal.runs import loop
from xmodal.runs.folder import folder_lock, run_folder
from xmodal.runs.folder.finished import FINAL, finished_reports

LOG = "log.txt"
# A sweep ends when this many trials in a row fail with the same error.
_ALIKE = 3


def run_trials(
    folder: pathlib.Path,
    plan: Plan,
    record: Record,
    trials: Sequence[Trial],
    *,
    keep_all: bool,
    after_each: Callable[[], None],
) -> bool:
    """Runs all trials that are not finished, except those that other processes are running.

    Args:
      folder: folder of the sweep; the run of a trial is in `trials/NUMBER`.
      plan: plan of the sweep.
      record: record with all trials.
      trials: trials to run, in this order.
      keep_all: whether to keep all checkpoints, or only those of the best trials.
      after_each: called after every trial.

    Returns:
      Whether it finished; False if a signal stopped it.

    Raises:
      UserError: the disk is full, a dataset is missing, or several trials in a row fail with the
        same error.
    """
    errors: list[str] = []
    progress = _Progress(plan, record, trials)
    while True:
        claimed = 0
        for trial in [each.trial for each in record.outcomes(trials) if not each.is_finished]:
            with _claim(folder, record, trial) as is_ours:
                if not is_ours:
                    continue
                claimed += 1
                run_dir = folder / "trials" / trial.name
                logging.info("Trial %s: %s", trial.name, format_values(trial.values))
                outcome = _run(run_dir, plan, record, trial)
            if not outcome.is_finished:
                return False
            progress.log(outcome)
            if not keep_all:
                _remove_checkpoints(folder, plan, record.outcomes(trials))
            after_each()
            errors = [*errors, outcome.error] if outcome.error else []
            if len(errors) >= _ALIKE and len(set(errors[-_ALIKE:])) == 1:
                raise UserError(
                    f"{_ALIKE} trials in a row failed alike: {errors[-1]} ({run_dir / LOG} has "
                    "more). The same command continues with the next one; --retry_failed starts "
                    "these again."
                )
        # A process that held a trial may have died in the meantime.
        if not claimed:
            return True


@contextlib.contextmanager
def _claim(folder: pathlib.Path, record: Record, trial: Trial) -> Iterator[bool]:
    """Yields whether this process may run the trial, and holds it meanwhile."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(folder_lock.hold(folder / "claims" / trial.name))
        except folder_lock.FolderInUseError:
            yield False
            return
        # Another process may have finished it between the check and the claim.
        (outcome,) = record.outcomes([trial])
        yield not outcome.is_finished


def _run(run_dir: pathlib.Path, plan: Plan, record: Record, trial: Trial) -> Outcome:
    """Runs or resumes a trial; returns its outcome, "running" if a signal stopped it."""
    record.start(trial)
    started = time.monotonic()
    try:
        with _output_to(run_dir / LOG):
            if not _train(plan, trial, run_dir):
                return record.outcomes([trial])[0]
            score = run_folder.load_metrics(str(run_dir), run_folder.best_step(str(run_dir)))
        metrics = json.loads((run_dir / FINAL / "metrics.json").read_text())
        seconds = time.monotonic() - started
        numbers = {tag: x for tag, x in metrics.items() if tag != "step" and x is not None}
        record.complete(trial, score[plan.select], numbers, seconds)
    except (DiskError, folder_lock.FolderInUseError, DatasetMissingError):
        raise
    except Exception as error:  # Whatever goes wrong in one trial, the others still run.
        record.fail(trial, str(error) if isinstance(error, UserError) else _in_words(error))
    finally:
        # Every trial compiles its own functions.
        jax.clear_caches()
        gc.collect()
    return record.outcomes([trial])[0]


def _train(plan: Plan, trial: Trial, run_dir: pathlib.Path) -> bool:
    """Returns whether the run is finished."""
    config = plan.config_of(trial)
    return bool(finished_reports(config, str(run_dir))) or loop.train(config, str(run_dir))


@contextlib.contextmanager
def _output_to(path: pathlib.Path) -> Iterator[None]:
    """Appends everything that is logged and printed to a file, with error traces."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with (
        path.open("a", encoding="utf-8") as file,
        contextlib.redirect_stdout(file),
        contextlib.redirect_stderr(file),
    ):
        try:
            yield
        except Exception:
            traceback.print_exc()
            raise


def _in_words(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _remove_checkpoints(folder: pathlib.Path, plan: Plan, outcomes: Sequence[Outcome]) -> None:
    """Removes the weights of complete trials except the best ones."""
    best = {each.trial.number for each in best_trials(plan, outcomes).values()}
    for each in outcomes:
        if each.state == "complete" and each.trial.number not in best:
            for part in ("checkpoints", "frozen"):
                shutil.rmtree(folder / "trials" / each.trial.name / part, ignore_errors=True)


class _Progress:
    """A line per trial: its score, the best so far, and the remaining time."""

    def __init__(self, plan: Plan, record: Record, trials: Sequence[Trial]) -> None:
        self._plan, self._record, self._trials = plan, record, trials
        self._started = time.monotonic()
        self._done = self._count()

    def _count(self) -> int:
        return sum(each.is_finished for each in self._record.outcomes(self._trials))

    def log(self, outcome: Outcome) -> None:
        done, total = self._count(), len(self._trials)
        # Other processes count too.
        pace = (time.monotonic() - self._started) / max(done - self._done, 1)
        left = f"{done} of {total} done, {tqdm.format_interval(pace * (total - done))} left"
        name = f"Trial {outcome.trial.name}"
        if outcome.score is None:
            logging.warning("%s failed: %s (%s)", name, outcome.error, left)
            return
        best, *_ = best_first(self._plan, self._record.outcomes(self._trials))
        logging.info(
            "%s: %s %.4g in %.0f s; best so far %.4g (%s); %s",
            *(name, self._plan.select, outcome.score, outcome.seconds),
            *(best.score, best.trial.name, left),
        )
