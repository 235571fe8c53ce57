"""Runs the trials of an Optuna study; several processes may do so concurrently.

The study is `sweep` in `FOLDER/optuna.db`. The process of a running trial holds a lock, which the
operating system releases when the process dies. The trial of a dead process returns to the queue,
and resumes from the last checkpoint of its run.
"""

import contextlib
import gc
import math
import pathlib
import shutil
import traceback
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import filelock
import jax
import optuna
from absl import logging
from etils import epath
from ml_collections import ConfigDict
from optuna.distributions import CategoricalDistribution
from optuna.trial import FrozenTrial, TrialState

from xmodal.api import run_training
from xmodal.apps.sweep import sweep_report as report
from xmodal.apps.sweep.plan import Plan, keep
from xmodal.apps.sweep.space import as_category, choices
from xmodal.core.config import FolderInUseError
from xmodal.core.errors import UserError
from xmodal.core.json_files import read_numbers
from xmodal.core.result_files import FINAL
from xmodal.data import DatasetMissingError

LOG = "log.txt"
_PATIENCE_SECONDS = 60
# A sweep ends when this many trials in a row fail with the same error.
_ALIKE = 3


class _TrialError(Exception):
    """A trial failed; the others still run."""


class _StoppedError(Exception):
    """A signal stopped the trial."""


_FATAL = (_StoppedError, OSError, FolderInUseError, DatasetMissingError)


def open_study(folder: pathlib.Path, plan: Plan) -> optuna.Study:
    """Opens or creates the study of a sweep in its folder."""
    return optuna.create_study(
        study_name="sweep",
        storage=optuna.storages.RDBStorage(
            f"sqlite:///{folder / 'optuna.db'}",
            engine_kwargs={"connect_args": {"timeout": _PATIENCE_SECONDS}},
        ),
        direction="minimize" if plan.sign < 0 else "maximize",
        load_if_exists=True,
    )


def trials_of(study: optuna.Study) -> list[FrozenTrial]:
    """Returns the newest attempt at every trial, by number."""
    found = {each.user_attrs["trial"]: each for each in study.get_trials(deepcopy=False)}
    return [found[number] for number in sorted(found)]


def search(
    plan: Plan, folder: pathlib.Path, *, draws: int, retry_failed: bool, keep_all: bool
) -> bool:
    """Runs the unfinished trials of a plan and writes the report.

    Args:
      plan: plan from `make_plan`.
      folder: folder of the sweep; a stopped sweep resumes. Trials run in `trials/NUMBER`.
      draws: total number of draws; more than before adds trials.
      retry_failed: whether failed trials are run again.
      keep_all: whether to keep all checkpoints, or only those of the best trials.

    Returns:
      False if a signal stopped it.

    Raises:
      UserError: the folder has another sweep, the disk is full, a dataset is missing, or several
        trials in a row fail with the same error.
    """
    run_training.check_folder(str(folder), plan.config)
    lock = filelock.FileLock(folder / "sweep.lock")
    with lock:
        keep(plan, folder)
        study = open_study(folder, plan)
        if retry_failed:
            for each in trials_of(study):
                if each.state == TrialState.FAIL:
                    _requeue(study, each)
    trials, errors = plan.trials(draws), []
    running = contextlib.ExitStack()

    def objective(trial: optuna.Trial) -> float:
        # The trial is dead if nobody holds its lock; no other process looks before it is held.
        running.enter_context(_lock_of(folder, report.name_of(trial)))
        lock.release()
        if trial.user_attrs.get("error"):
            # A trial that is run again starts with the attributes of its failed attempt.
            trial.set_user_attr("error", "")
        name, values = report.name_of(trial), trial.user_attrs["values"]
        logging.info("Trial %s: %s", name, values)
        return _run(study, trial, plan.config_of(name, values), str(folder / "trials" / name))

    def after(study: optuna.Study, trial: FrozenTrial) -> None:
        running.close()  # Who starts the trial again waits for it, and holds the other lock.
        with lock:  # Another process would replace newer tables by its older ones.
            known = trials_of(study)
            _log(plan, trial, known, len(trials))
            if not keep_all:
                _remove_checkpoints(folder, known, report.best_trials(plan, known).values())
            report.write_tables(plan, folder, known)
        errors.append(trial.user_attrs["error"] if trial.state == TrialState.FAIL else "")
        if len(errors) >= _ALIKE and errors[-1] and len(set(errors[-_ALIKE:])) == 1:
            raise UserError(
                f"{_ALIKE} trials in a row failed alike: {errors[-1]} (trials/"
                f"{report.name_of(trial)}/{LOG} has more). The same command continues with the "
                "next one; --retry_failed starts these again."
            )

    try:
        while True:
            # Until a trial has started, no other process takes it.
            lock.acquire()
            _requeue_dead(study, folder)
            if not _fill_queue(study, plan, trials):
                return True
            with running:
                study.optimize(objective, n_trials=1, catch=_TrialError, callbacks=[after])
    except _StoppedError:
        logging.warning("Stopped; the same command resumes the sweep.")
        return False
    finally:
        lock.release(force=True)
        with lock:
            report.write_report(plan, folder, trials_of(study))


def _fill_queue(study: optuna.Study, plan: Plan, trials: Sequence[dict[str, Any]]) -> bool:
    """Adds the next trial if none is waiting; returns whether there is one."""
    known = trials_of(study)
    if any(each.state == TrialState.WAITING for each in known):
        return True
    if len(known) >= len(trials):
        return False
    values = trials[len(known)]
    study.add_trial(
        optuna.trial.create_trial(
            state=TrialState.WAITING,
            params={path: as_category(value) for path, value in values.items()},
            distributions={
                path: choices(tuple(map(as_category, each.choices)))
                if isinstance(each, CategoricalDistribution)
                else each
                for path, each in plan.parameters.items()
            },
            user_attrs={"trial": len(known), "values": values},
        )
    )
    return True


def _requeue(study: optuna.Study, trial: FrozenTrial) -> None:
    """Adds another attempt at a trial to the queue."""
    study.add_trial(
        optuna.trial.create_trial(
            state=TrialState.WAITING,
            params=trial.params,
            distributions=trial.distributions,
            user_attrs=trial.user_attrs,
        )
    )


def _requeue_dead(study: optuna.Study, folder: pathlib.Path) -> None:
    """Returns trials to the queue whose process died; the caller holds the lock of the sweep."""
    for each in trials_of(study):
        if each.state == TrialState.RUNNING:
            with contextlib.suppress(filelock.Timeout), _lock_of(folder, report.name_of(each), 0):
                study.tell(each.number, state=TrialState.FAIL)
                _requeue(study, each)


def _lock_of(folder: pathlib.Path, name: str, timeout: float = -1) -> filelock.BaseFileLock:
    """Returns the lock of a running trial; without a timeout in seconds, it waits for it."""
    run_dir = folder / "trials" / name
    run_dir.mkdir(parents=True, exist_ok=True)
    return filelock.FileLock(run_dir / "running.lock", timeout=timeout)


def _run(study: optuna.Study, trial: optuna.Trial, config: ConfigDict, run_dir: str) -> float:
    """Trains or resumes a trial and returns its score; without an error, also its metrics."""
    try:
        with _output_to(pathlib.Path(run_dir, LOG)):
            if not run_training.train_once(config, run_dir):
                raise _StoppedError
            best = run_training.best_metrics(run_dir)
        path = epath.Path(run_dir) / FINAL / "metrics.json"
        metrics = read_numbers(path, "remove it, and run the trial again with --retry_failed.")
        # The database has no NaN: undefined numbers are left out.
        numbers = {tag: x for tag, x in metrics.items() if tag != "step" and math.isfinite(x)}
        trial.set_user_attr("metrics", numbers)
        trial.set_user_attr("rank", run_training.rank_metrics(config, best))
        score = best[config.select.metric]
        if math.isnan(score):
            raise UserError(f"{config.select.metric} of the best checkpoint is undefined.")
        return score
    except BaseException as error:
        if isinstance(error, _FATAL) or not isinstance(error, Exception):
            _requeue(study, study.trials[trial.number])
            raise
        kind = "" if isinstance(error, UserError) else f"{type(error).__name__}: "
        trial.set_user_attr("error", kind + str(error).strip())
        raise _TrialError from error
    finally:
        # Every trial compiles its own functions.
        jax.clear_caches()
        gc.collect()


def _log(plan: Plan, trial: FrozenTrial, trials: Sequence[FrozenTrial], total: int) -> None:
    done = f"{sum(each.state.is_finished() for each in trials)} of {total} done"
    if trial.state == TrialState.FAIL:
        error = trial.user_attrs["error"]
        logging.warning("Trial %s failed: %s (%s)", report.name_of(trial), error, done)
        return
    assert trial.duration is not None
    score, best = report.score_of(trial), report.best_first(plan, trials)[0]
    logging.info(
        "Trial %s: %s %.4g in %.0f s; best so far %.4g (%s); %s",
        *(report.name_of(trial), plan.select, score, trial.duration.total_seconds()),
        *(report.score_of(best), report.name_of(best), done),
    )


def _remove_checkpoints(
    folder: pathlib.Path, trials: Sequence[FrozenTrial], best: Iterable[FrozenTrial]
) -> None:
    """Removes the weights of complete trials except the best ones."""
    kept = {report.name_of(each) for each in best}
    for each in trials:
        if each.state == TrialState.COMPLETE and report.name_of(each) not in kept:
            for part in ("checkpoints", "frozen"):
                shutil.rmtree(folder / "trials" / report.name_of(each) / part, ignore_errors=True)


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
