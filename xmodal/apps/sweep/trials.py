"""Runs the trials of an Optuna study; several processes may do so concurrently.

The study is `sweep` in `FOLDER/optuna.db`. A running trial has a heartbeat; without it, Optuna
returns the trial to the queue, and it resumes from the last checkpoint of its run.
"""

import contextlib
import gc
import math
import pathlib
import shutil
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping

import filelock
import jax
import optuna
from absl import logging
from etils import epath
from ml_collections import ConfigDict
from optuna.storages import RetryHeartbeatStaleTrialCallback
from optuna.trial import FrozenTrial, TrialState

from xmodal.api import run_training
from xmodal.apps.sweep import sweep_report as report
from xmodal.apps.sweep.plan import Plan, keep
from xmodal.core.errors import FolderInUseError, UserError
from xmodal.core.files import FINAL, read_numbers, write_file
from xmodal.data import DatasetMissingError

LOG = "log.txt"
_HEARTBEAT_SECONDS = 15
# Optuna reports every study that it creates, and calls heartbeats experimental.
optuna.logging.set_verbosity(optuna.logging.ERROR)
warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
_RETRY = RetryHeartbeatStaleTrialCallback(inherit_intermediate_values=True)


Watch = Callable[[int, Mapping[str, float]], None]
Train = Callable[[ConfigDict, str, Watch], Mapping[str, float] | None]
"""Trains or resumes the run of a config in a folder and writes its final metrics to
`FOLDER/test/metrics.json`; returns those that trials are compared by, or None if a signal stopped
it. It may call `watch`, see `run_training.train_once`."""


def train_run(config: ConfigDict, run_dir: str, watch: Watch) -> Mapping[str, float] | None:
    """Returns the metrics of a run's best checkpoint; see `Train`."""
    if not run_training.train_once(config, run_dir, watch):
        return None
    return run_training.best_metrics(run_dir)


class _TrialError(Exception):
    """A trial failed; the others still run."""


class _StoppedError(Exception):
    """A signal stopped the trial."""


def open_study(folder: pathlib.Path, plan: Plan) -> optuna.Study:
    """Opens or creates the study of a sweep in its folder."""
    return plan.make_study(
        optuna.storages.RDBStorage(
            f"sqlite:///{folder / 'optuna.db'}",
            engine_kwargs={"connect_args": {"timeout": 60}},
            heartbeat_interval=_HEARTBEAT_SECONDS,
            grace_period=3 * _HEARTBEAT_SECONDS,
            heartbeat_stale_trial_callback=_RETRY,
        )
    )


def trials_of(study: optuna.Study) -> list[FrozenTrial]:
    """Returns the newest attempt at every trial, by name."""
    found = {report.name_of(each): each for each in study.get_trials(deepcopy=False)}
    return [found[name] for name in sorted(found)]


def search(
    plan: Plan,
    folder: pathlib.Path,
    *,
    draws: int,
    retry_failed: bool,
    keep_all: bool,
    train: Train = train_run,
) -> bool:
    """Runs the unfinished trials of a plan and writes the report.

    Args:
      plan: plan from `make_plan`.
      folder: folder of the sweep; a stopped sweep resumes. Trials run in `trials/NUMBER`.
      draws: total number of draws; more than before adds trials.
      retry_failed: whether failed trials are run again.
      keep_all: whether to keep all checkpoints, or only those of the best trials.
      train: trains a trial.

    Returns:
      False if a signal stopped it.
    """
    run_training.check_folder(str(folder), plan.config)
    folder.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(folder / "sweep.lock")
    with lock:
        study = open_study(folder, plan)
        keep(plan, study)
        for each in trials_of(study) if retry_failed else ():
            if each.state == TrialState.FAIL:
                _RETRY(study, each)

    def objective(trial: optuna.Trial) -> float:
        plan.draw(study, trial)
        lock.release()  # Others may draw the next trial.
        return _run(plan, study, trial, folder, train)

    def after(study: optuna.Study, trial: FrozenTrial) -> None:
        with lock:  # Another process would replace a newer table by its older one.
            known = trials_of(study)
            if not keep_all:
                best = report.best_trials(plan, known).values()
                _remove_checkpoints(folder, [each for each in known if each not in best])
            write_file(folder / "results.csv", report.format_csv(plan, known))
        state = f"{trial.state.name.lower()} {trial.value or trial.user_attrs.get('error', '')}"
        logging.info("Trial %s: %s", report.name_of(trial), state)

    try:
        while True:
            lock.acquire()
            optuna.storages.fail_stale_trials(study)
            states = [each.state for each in trials_of(study)]
            if len(states) < plan.total(draws) or TrialState.WAITING in states:
                plan.seed_study(study)
                study.optimize(objective, n_trials=1, catch=_TrialError, callbacks=[after])
            elif TrialState.RUNNING in states:  # In another process, which may have died.
                lock.release()
                time.sleep(_HEARTBEAT_SECONDS)
            else:
                return True
    except _StoppedError:
        logging.warning("Stopped; the same command resumes the sweep.")
        return False
    finally:
        lock.release(force=True)
        with lock:
            report.write_report(plan, folder, trials_of(study))


def _run(
    plan: Plan, study: optuna.Study, trial: optuna.Trial, folder: pathlib.Path, train: Train
) -> float:
    """Trains or resumes a trial and returns its score."""
    name = report.name_of(study.get_trials(deepcopy=False)[trial.number])
    values = trial.user_attrs["values"]
    run_dir, config = folder / "trials" / name, plan.config_of(name, values)
    logging.info("Trial %s: %s", name, values)

    def watch(step: int, metrics: Mapping[str, float]) -> None:
        if plan.pruner != "none" and plan.select in metrics:
            trial.report(metrics[plan.select], step)
            if trial.should_prune():
                raise optuna.TrialPruned

    try:
        with _output_to(run_dir / LOG):
            best = train(config, str(run_dir), watch)
        if best is None:
            raise _StoppedError
        path = epath.Path(run_dir) / FINAL / "metrics.json"
        metrics = read_numbers(path, "remove it, and run the trial again with --retry_failed.")
        # The database has no NaN: undefined numbers are left out.
        numbers = {tag: x for tag, x in metrics.items() if tag != "step" and math.isfinite(x)}
        trial.set_user_attr("metrics", numbers)
        trial.set_user_attr("rank", run_training.rank_metrics(config, best))
        trial.set_user_attr("error", "")  # That of an earlier attempt.
        return best[plan.select]
    except optuna.TrialPruned:
        raise
    except (KeyboardInterrupt, _StoppedError, OSError, FolderInUseError, DatasetMissingError):
        _RETRY(study, study.get_trials()[trial.number])
        raise
    except Exception as error:
        kind = "" if isinstance(error, UserError) else f"{type(error).__name__}: "
        trial.set_user_attr("error", kind + str(error).strip())
        raise _TrialError from error
    finally:
        # Every trial compiles its own functions.
        jax.clear_caches()
        gc.collect()


def _remove_checkpoints(folder: pathlib.Path, trials: Iterable[FrozenTrial]) -> None:
    """Removes the weights of trials that have finished."""
    for each in trials:
        if each.state in (TrialState.COMPLETE, TrialState.PRUNED):
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
