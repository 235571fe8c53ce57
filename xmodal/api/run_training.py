"""Checks configs, trains runs and reads their metrics, for programs that train several runs."""

from collections.abc import Callable, Mapping

import ml_collections

from xmodal import data
from xmodal.core.files import check_writable
from xmodal.train import loop
from xmodal.train.evaluation.run_evaluation import RunEvaluation
from xmodal.train.folder import run_folder
from xmodal.train.folder.finished import finished_reports
from xmodal.train.resolve import resolve as resolve
from xmodal.train.run import Run
from xmodal.train.sections import BestCheckpointConfig


def metric_tags(run: Run) -> Mapping[str, Mapping[str, str]]:
    """Returns evaluator -> tag of a metric -> the same without the evaluator."""
    return RunEvaluation(run, trains=False).suite.tags()


def check_folder(folder: str, config: ml_collections.ConfigDict) -> None:
    """Raises an error if a folder cannot hold runs of a config."""
    run_folder.check_path(folder)
    data.check_outside(data.parse(config.data), folder)
    check_writable(folder)


def train_once(
    config: ml_collections.ConfigDict,
    run_dir: str,
    watch: Callable[[int, Mapping[str, float]], None] | None = None,
) -> bool:
    """Trains or resumes a run, unless it has finished; returns False as `xmodal.train` does.

    `watch` is called with the step and the metrics of every evaluation, and may end the run by an
    error.
    """
    return bool(finished_reports(config, run_dir)) or loop.train(config, run_dir, watch=watch)


def best_metrics(run_dir: str) -> dict[str, float]:
    """Returns the metrics that a run stored with its best checkpoint, by tag."""
    return run_folder.load_metrics(run_dir, run_folder.best_step(run_dir))


def rank_metrics(config: ml_collections.ConfigDict, metrics: Mapping[str, float]) -> list[float]:
    """Returns numbers that order runs as `config.best_checkpoint` does, higher if better."""
    return list(BestCheckpointConfig(**config.best_checkpoint).rank(metrics))
