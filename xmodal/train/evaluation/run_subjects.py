"""Opens checkpoints of runs for their evaluation: as they appear, averaged, or of several runs.

A run's weights averaged with those that it started from: Wortsman et al., "Robust fine-tuning of
zero-shot models" (2022), WiSE-FT.
"""

import functools
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

import jax
import ml_collections
import numpy as np
from absl import logging
from etils import epath

from xmodal import data
from xmodal.core.config import lookup
from xmodal.core.errors import UserError
from xmodal.core.files import FINAL, read_numbers, write_files
from xmodal.core.progress import check_stop
from xmodal.core.text_table import format_table
from xmodal.data.text.text_counts import count_texts
from xmodal.evals.evaluators import Split
from xmodal.evals.labels.split import different_records
from xmodal.evals.model_adapter import EncoderAdapter, Ensemble
from xmodal.evals.reports.evaluation import Points
from xmodal.evals.reports.summary import select_curves
from xmodal.evals.scores.embed import Items
from xmodal.train.evaluation.run_evaluation import RunEvaluation
from xmodal.train.evaluation.subjects import Opened, evaluate_subjects
from xmodal.train.evaluation.suite import EvalSuite, Request, Subject
from xmodal.train.folder import checkpoints, run_folder
from xmodal.train.loggers import Service
from xmodal.train.resolve import changed_settings
from xmodal.train.start import initial_state
from xmodal.train.tree import TrainState

POLL_SECONDS = 5.0
_START = os.path.join("step_0", FINAL)
# The metrics in the table of a curve; all have an interval.
_SHOWN = ("recall@1", "accuracy@1", "map@r", "spearman")
_T = TypeVar("_T")


def evaluate_start(evaluation: RunEvaluation, run_dir: str, state: TrainState) -> None:
    """Evaluates the state of step 0 on the final splits into `RUN_DIR/step_0/test`, once.

    Args:
      evaluation: the evaluation of the run.
      run_dir: its folder.
      state: its state, with the same sharding as in training.
    """
    output, settings = os.path.join(run_dir, _START), evaluation.parts.settings
    if run_folder.steps(run_dir) and (epath.Path(output) / "metrics.json").exists():
        return
    adapter = evaluation.adapter(state.all_params(), state.model_state)
    subject = Subject(f"{settings.name} step 0", adapter, step=0)
    evaluate_subjects(Opened(evaluation.suite, [subject], settings.tensorboard), output)


def evaluate_best(evaluation: RunEvaluation, run_dir: str, services: Iterable[Service]) -> None:
    """Evaluates the best checkpoint of a run on the final splits into `RUN_DIR/test`.

    With results of `evaluate_start`, it is compared with them. The metrics also go to `services`.
    """
    best, start = run_folder.best_step(run_dir), os.path.join(run_dir, _START)
    request = Request(compare=start if best and epath.Path(start).exists() else None, lenient=True)
    opened = open_run(evaluation, run_dir, [best])
    evaluations = evaluate_subjects(opened, os.path.join(run_dir, FINAL), request)
    tagged = [select_curves(each.tagged).items() for each in evaluations]
    scalars = {f"{FINAL}/{tag}": value for curves in tagged for tag, value in curves}
    for service in services:
        service.write_scalars(best, scalars)


def open_run(evaluation: RunEvaluation, run_dir: str, steps: Iterable[int]) -> Opened:
    """Returns checkpoints of a run.

    Args:
      evaluation: the evaluation of the run.
      run_dir: its folder.
      steps: its checkpoints; those that the run has replaced are skipped.
    """
    parts, records = evaluation.parts, run_folder.load_records(run_dir).get("train", {})
    settings = parts.settings
    describe = functools.partial(describe_captions, settings.data, settings.train_split)

    def subjects() -> Iterator[Subject]:
        for step in steps:
            try:
                weights = checkpoints.restore_model(run_dir, step, parts.shapes, parts.mesh)
            except (FileNotFoundError, ValueError):
                if step in run_folder.steps(run_dir):
                    raise
                # A run keeps only its last few checkpoints.
                logging.warning("Checkpoint %d was replaced while it was being read.", step)
                continue
            name = f"{settings.name} step {step}"
            curves = read_curves(run_dir, settings.best_checkpoint.metric)
            yield Subject(name, evaluation.adapter(*weights), describe, records, step, curves)

    return Opened(evaluation.suite, subjects(), settings.tensorboard, changed_settings(settings))


def read_curves(run_dir: str, metric: str) -> dict[str, Points]:
    """Returns tag -> points of the loss and of the metric that selects checkpoints."""
    evaluated = run_folder.load_evaluated(run_dir).items()
    curves = {
        "train/loss": run_folder.load_losses(run_dir),
        metric: {step: metrics[metric] for step, metrics in evaluated if metric in metrics},
    }
    return {tag: sorted(points.items()) for tag, points in curves.items()}


def describe_captions(settings: data.DataConfig, train_split: str, split: Items) -> list[str]:
    """Returns the prompt of the captions, and how many are cut or without a known word."""
    if settings.text is None or "text" not in split.modalities:
        return []
    prompt = settings.text.prompt
    texts = [(prompt or "{}").replace("{}", text) for text in split.caption_texts]
    counts = count_texts(data.load_tokenizer(settings, train_split), texts)
    notes = [f"Captions are read as {prompt!r}."] if prompt else []
    return [*notes, *filter(None, [counts.describe("captions", "config.data.text.max_length")])]


def open_ensemble(members: Mapping[str, Opened], split: str | None) -> Opened:
    """Returns several models as one, whose scores are means, with the evaluators of the first.

    Args:
      members: folder -> its only model.
      split: `Request.split`.
    """
    (name, first), *_ = members.items()

    def subjects() -> Iterator[Subject]:
        own = [
            _own_items(first.suite, each.suite, split, (name, folder))
            for folder, each in members.items()
        ]
        models = [model for each in members.values() for model in each.subjects]
        labels = [model.name for model in models]
        note = f"Scores are means of those of {' and '.join(labels)}."
        adapters = [cast(EncoderAdapter, model.adapter) for model in models]
        adapter = Ensemble([*zip(adapters, own, strict=True)])
        yield Subject(" + ".join(labels), adapter, lambda items: [note])

    return Opened(first.suite, subjects(), first.tensorboard)


def _own_items(
    first: EvalSuite, other: EvalSuite, split: str | None, folders: tuple[str, str]
) -> Callable[[Items], Items]:
    """Returns the function from the first model's items to another's, read by its own tokenizer."""
    own = {}
    for name, options in first.options.items():
        lookup(f"config.evals of {folders[1]}", name, other.options)
        chosen = first.split_of(name, split)
        used = [cast(Split, suite.items(name, chosen)) for suite in (first, other)]
        for each in (chosen, *options.splits_read):
            ours, theirs = used if each == chosen else [split.beside(each) for split in used]
            same_texts = np.array_equal(ours.caption_texts, theirs.caption_texts)
            if not same_texts or different_records(ours.hashes, theirs.hashes):
                raise UserError(
                    f"The evaluator {name!r} of {folders[0]} and of {folders[1]} uses different "
                    f"records of the split {each!r}; only models on the same images and captions "
                    "can be averaged."
                )
            own[id(ours)] = cast(Items, theirs)
    return lambda items: own[id(items)]


def open_interpolation(
    evaluation: RunEvaluation, run_dir: str, step: int, weights: Sequence[float]
) -> Opened:
    """Returns (1 - w) a + w b for every weight w; its step is w in percent.

    Args:
      evaluation: the evaluation of the run.
      run_dir: its folder.
      step: the checkpoint b; a is the source in the run's `config.init_from`.
      weights: the weights.
    """
    parts, records = evaluation.parts, run_folder.load_records(run_dir).get("train", {})

    def subjects() -> Iterator[Subject]:
        state = initial_state(parts)
        first = {"params": state.all_params(), "model_state": state.model_state}
        restored = checkpoints.restore_model(run_dir, step, parts.shapes, parts.mesh)
        last = dict(zip(first, restored, strict=True))
        for weight in weights:
            mixed = jax.tree.map(lambda a, b, w=weight: _mix(a, b, 1 - w), last, first)
            adapter = evaluation.adapter(**mixed)
            name = f"{weight:g} {parts.config.name} step {step}"
            yield Subject(name, adapter, trained_on=records, step=round(100 * weight))

    return Opened(evaluation.suite, subjects(), parts.settings.tensorboard)


def _mix(a: Any, b: Any, alpha: float) -> Any:
    """Returns (1 - alpha) a + alpha b of two arrays.

    Integers, such as the concepts of words, are those of a: they follow from the vocabulary.
    """
    is_number = np.issubdtype(a.dtype, np.floating)
    return ((1 - alpha) * a + alpha * b).astype(a.dtype) if is_number else a


def write_curve(output: str, weights: Sequence[float]) -> str:
    """Returns the results of every weight as a Markdown table, and writes it to `curve.md`.

    Args:
      output: folder of the results of `open_interpolation`.
      weights: the weights.
    """
    steps, remedy = epath.Path(output) / "steps", "evaluate the run again."
    found = [read_numbers(steps / f"{round(100 * weight)}.json", remedy) for weight in weights]
    tags = [tag for tag in found[0] if tag.endswith(_SHOWN) and f"{tag}_low" in found[0]]
    rows = [["weight", *tags]]
    for weight, numbers in zip(weights, found, strict=True):
        cells = [
            f"{numbers[tag]:.1f} [{numbers[f'{tag}_low']:.1f}, {numbers[f'{tag}_high']:.1f}]"
            for tag in tags
        ]
        rows.append([f"{weight:g}", *cells])
    table = format_table(rows)
    write_files(output, {"curve.md": f"{table}\n"})
    return table


def wait_for_run(run_dir: str, *, timeout: float) -> ml_collections.ConfigDict:
    """Returns the config of a run, once it has started, within `timeout` seconds."""
    path = epath.Path(run_dir) / "config.json"
    if _wait(lambda: path.exists() or None, f"the run {run_dir}", timeout) is None:
        raise UserError(f"The run {run_dir} did not start within {timeout:.0f} s (--timeout).")
    return run_folder.load_run(run_dir)


def follow(run_dir: str, output: str, *, timeout: float, overwrite: bool = False) -> Iterator[int]:
    """Yields the checkpoints that are not yet evaluated as they appear, oldest first.

    Ends after the run's last step, or when no new checkpoint has appeared for `timeout` seconds.

    Args:
      run_dir: folder of the run.
      output: folder of its results.
      timeout: seconds to wait.
      overwrite: whether to remove and ignore existing results.
    """
    results = epath.Path(output) / "steps"
    if overwrite:
        results.rmtree(missing_ok=True)
    done = {int(path.stem) for path in results.glob("*.json")}

    def find() -> int | None:
        return next((step for step in run_folder.steps(run_dir) if step not in done), None)

    # The config is read again, since a run may be extended.
    while int(run_folder.load_run(run_dir).total_steps) not in done:
        step = _wait(find, "a checkpoint", timeout)
        if step is None:
            logging.warning("No new checkpoint in %s for %.0f s.", run_dir, timeout)
            return
        yield step
        done.add(step)


def _wait(find: Callable[[], _T | None], what: str, timeout: float) -> _T | None:
    """Returns the first result that is not None; None after `timeout` seconds."""
    started = time.monotonic()
    while (found := find()) is None and time.monotonic() - started < timeout:
        check_stop(f"waiting for {what}")
        time.sleep(min(POLL_SECONDS, timeout))
    return found
