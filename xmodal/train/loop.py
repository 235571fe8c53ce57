"""The only training loop."""

import contextlib
import dataclasses
import os
import signal
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from typing import Any

import jax
import ml_collections
import numpy as np
from absl import logging

from xmodal import data
from xmodal.core import processes
from xmodal.core.progress import StopRequestedError, interruptible, stoppable
from xmodal.core.reused_memory import keep_freed_memory
from xmodal.evals.reports.summary import select_curves
from xmodal.train import frozen_features, reporting
from xmodal.train.compiled_step import compile_step
from xmodal.train.evaluation.run_evaluation import RunEvaluation
from xmodal.train.evaluation.run_subjects import evaluate_best, evaluate_start
from xmodal.train.event_writer import EventWriter
from xmodal.train.folder import folder_lock, run_folder
from xmodal.train.folder.checkpoints import Checkpoints
from xmodal.train.folder.finished import mark_finished, next_steps
from xmodal.train.loggers import TENSORBOARD, Service, open_services
from xmodal.train.optimization.optimizer import observe_metrics
from xmodal.train.optimization.run_lengths import is_due
from xmodal.train.resolve import resolve
from xmodal.train.run import Run
from xmodal.train.sections import ProfileConfig
from xmodal.train.start import describe, starting_state
from xmodal.train.tensorboard import Views
from xmodal.train.tree import TrainState


def train(
    config: ml_collections.ConfigDict,
    run_dir: str,
    *,
    allow_changes: Collection[str] = (),
    watch: Callable[[int, Mapping[str, float]], None] | None = None,
) -> bool:
    """Trains or resumes one run, evaluating it along the way and once more at the end.

    Evaluation and checkpoint of step s come before batch s is drawn: a killed run resumes exactly
    at its last checkpoint.

    Args:
      config: see the files under configs/.
      run_dir: the run's folder; an existing run is resumed.
      allow_changes: paths of the config in which a resumed run may differ from its start;
        `records` means the records of the training split, `devices` the number of devices, where
        batch normalization depends on it.
      watch: called with the step and the metrics of every evaluation during training.

    Returns:
      False if a signal stopped the run before its last step; the run is saved.

    Raises:
      UserError: the config is wrong, or differs from that of the existing run.
      reporting.NonFiniteLossError: the run diverged; evidence and last good state are saved.
    """
    run_folder.check_path(run_dir)
    with folder_lock.hold(run_dir):
        run = resolve(config, run_dir, allow_changes=allow_changes)
        evaluation = RunEvaluation(run, stores=True, watch=watch)
        with open_services(run.config.to_dict(), run_dir) as services:
            if not _train(run, run_dir, evaluation, services):
                return False
            with stoppable("the same command evaluates again"):
                evaluate_best(evaluation, run_dir, services)
        mark_finished(config, run_dir, evaluation.files)
    if processes.index() == 0:
        print(next_steps(run_dir, run.config), flush=True)
    return True


def _train(
    run: Run, run_dir: str, evaluation: RunEvaluation, services: Collection[Service]
) -> bool:
    """Runs the remaining steps; returns False if a signal stopped it before the last one."""
    settings, description = run.settings, describe(run)
    logging.info("%s", description)
    metric = settings.best_checkpoint.metric
    state = starting_state(run, run_dir, sets_aside=True)
    first_step, total_steps = int(state.step), settings.total_steps
    features = frozen_features.open_or_compute(run, state) if first_step < total_steps else ()
    with contextlib.ExitStack() as stack:
        # The first batches are read during compilation.
        batches = stack.enter_context(contextlib.closing(make_batches(run, first_step, features)))
        # An evaluator may have been added to a finished run.
        compiled = compile_step(run, state, features) if first_step < total_steps else None
        # Only now: what the start allocated is not needed again.
        keep_freed_memory()
        _write_folder(run, run_dir)
        # Before the writers, so that a second SIGTERM does not end the last writes.
        stop_requested = stack.enter_context(stop_signal())
        saver = stack.enter_context(
            contextlib.closing(Checkpoints(run_dir, settings.checkpoint, settings.best_checkpoint))
        )
        folder = run_dir if TENSORBOARD in settings.loggers else None
        writer = stack.enter_context(contextlib.closing(EventWriter(folder, services)))
        directions = ("i2t", "t2i") if "image" in run.model.towers else ("t2t",)
        writer.write_layout(metric, directions)
        reporter = reporting.Reporter(writer, settings, run_folder.load_losses(run_dir))
        trace = stack.enter_context(contextlib.ExitStack())
        facts = {"config": run.config.to_json_best_effort(indent=2), "parameters": description}
        writer.write_texts(0, {tag: f"```\n{text}\n```" for tag, text in facts.items()})

        def save(state: TrainState, metrics: Mapping[str, float] | None = None) -> None:
            run_folder.save_losses(run_dir, reporter.losses)
            saver.save(state, metrics)

        def evaluate(state: TrainState) -> TrainState:
            """Evaluates and saves a state; returns it with the resulting learning rate."""
            step = int(state.step)
            with reporter.paused():
                metrics = evaluation.run_state(
                    step, state, Views(writer, settings.tensorboard, step)
                )
                # The metric of the best checkpoint may repeat another.
                selecting = {tag: metrics[tag] for tag in (metric,) if tag in metrics}
                writer.write_scalars(step, select_curves(metrics) | selecting)
                opt_state = observe_metrics(settings.optimizer, state.opt_state, metrics)
                state = dataclasses.replace(state, opt_state=opt_state)
                save(state, metrics)
            return state

        if first_step == 0 < total_steps and settings.init_from.has_weights:
            with contextlib.suppress(StopRequestedError), interruptible(stop_requested):
                evaluate_start(evaluation, run_dir, state)
        try:
            for step in range(first_step, total_steps + 1):
                # An earlier start may have evaluated and saved this step.
                saves = is_due(step, settings.checkpoint.every, total_steps) and saver.lacks(step)
                if saves or (evaluation.due(step) and saver.lacks_metrics(step)):
                    with (
                        contextlib.suppress(StopRequestedError),  # A later start evaluates again.
                        interruptible(stop_requested),
                    ):
                        state = evaluate(state)
                if stop_requested():
                    with reporter.paused():  # This also reads the last step.
                        save(state)
                    logging.warning(
                        "Stopped and saved at step %d; the same command resumes the run.", step
                    )
                    return False
                if compiled is None or step == total_steps:
                    break
                with reporter.waiting():
                    local = next(batches)
                _trace(settings.profile, step, run_dir, trace)
                state, scalars = compiled(state, local, step)
                reporter.record(step, scalars, local["image_id"], compiled.flops(local))
        except reporting.NonFiniteLossError as failure:
            failure.save(run_dir)
            save(state)  # The last good one.
            raise
        if saver.best_step == 0 < total_steps:
            logging.warning("%s was best at step 0; training did not improve it.", metric)
    if stop_requested():  # A signal may have come during that write.
        logging.warning("Stopped before the final evaluation; the same command makes it.")
        return False
    return True


def _write_folder(run: Run, run_dir: str) -> None:
    """Writes what describes the run: its records, the user's images it trains on, its config."""
    source, split = run.settings.data, run.settings.train_split
    run_folder.save_records(run_dir, run.records)
    if processes.index() == 0 and data.follows_files(source):
        # Search recognizes them.
        items = data.eval_split(source, split=split, train_split=split)
        hashes = items.image_hashes.tolist()
        run_folder.save_training_items(run_dir, hashes, items.caption_texts)
    words = data.load_vocabulary(source, split) if source.text is not None else None
    # Last, because a concurrent evaluation waits for it.
    run_folder.save_config(run_dir, run.config, words)


def make_batches(
    run: Run, first_step: int, features: Sequence[data.FeatureReader] = ()
) -> Generator[dict[str, np.ndarray], None, None]:
    """Returns this process's rows of every batch from `first_step` on, see `data.train_batches`."""
    settings = run.settings
    return data.train_batches(
        settings.data,
        split=settings.train_split,
        seed=settings.seed,
        batch_size=settings.batch_size,
        first_step=first_step,
        total_steps=settings.total_steps,
        process_index=jax.process_index(),
        process_count=jax.process_count(),
        devices=run.mesh.size,
        parts=settings.accumulation_steps,
        features=features,
    )


@contextlib.contextmanager
def stop_signal() -> Iterator[Callable[[], bool]]:
    """Yields a function that says whether to save and stop.

    A single process listens to SIGTERM and Ctrl-C; a second Ctrl-C stops immediately. Several agree
    through JAX's own preemption service, which listens to SIGTERM, so that all of them stop at the
    same call.
    """
    if jax.process_count() > 1:
        yield processes.agree_to_stop
        return
    received: list[int] = []
    previous: dict[int, Any] = {}

    def stop(number: int, frame: object) -> None:
        received.append(number)
        if number == signal.SIGINT:
            signal.signal(signal.SIGINT, previous[signal.SIGINT])
            # Not through the log, which may be in use at this moment.
            os.write(2, b"\nSaving after this step; press Ctrl-C again to stop without saving.\n")

    for number in (signal.SIGINT, signal.SIGTERM):
        previous[number] = signal.signal(number, stop)
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _trace(
    config: ProfileConfig | None, step: int, run_dir: str, trace: contextlib.ExitStack
) -> None:
    """Starts or ends the trace of the steps of `config.profile`; called before every step.

    Every host writes its trace to `RUN_DIR/plugins/profile`, for TensorBoard's profile tab.
    """
    if config is not None and step == config.start:
        logging.info("Tracing %d steps from step %d on.", config.steps, step)
        trace.enter_context(jax.profiler.trace(run_dir))
    elif config is not None and step == config.start + config.steps:
        trace.close()
