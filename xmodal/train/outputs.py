"""Evaluations, checkpoints and reports during training."""

import contextlib
import dataclasses
from collections.abc import Iterator

from absl import logging
from clu.parameter_overview import get_parameter_overview

from xmodal.core.event_writer import EventWriter
from xmodal.evals.reports.summary import select_curves
from xmodal.train import reporting
from xmodal.train.evaluation.run_evaluation import RunEvaluation
from xmodal.train.folder import checkpoints
from xmodal.train.folder.compute import Compute
from xmodal.train.optimization.optimizer import observe_metrics
from xmodal.train.optimization.run_lengths import is_due
from xmodal.train.run import Run
from xmodal.train.start import describe
from xmodal.train.step.state import TrainState
from xmodal.train.tensorboard.example_views import Views


@dataclasses.dataclass(frozen=True)
class Outputs:
    """Evaluations, checkpoints and reports of one start of a run."""

    parts: Run
    run_dir: str
    evaluation: RunEvaluation
    saver: checkpoints.Checkpoints
    writer: EventWriter
    reporter: reporting.Reporter

    def are_due(self, step: int) -> bool:
        """Whether to evaluate or save this step, if an earlier start has not done so."""
        settings = self.parts.settings
        saves = is_due(step, settings.checkpoint.every, settings.total_steps)
        if saves and self.saver.lacks(step):
            return True
        return self.evaluation.is_due(step) and self.saver.lacks_metrics(step)

    def evaluate(self, step: int, state: TrainState) -> TrainState:
        """Evaluates and saves a state; returns it with the resulting learning rate."""
        settings = self.parts.settings
        with self.reporter.paused():
            views = Views(self.writer, settings.tensorboard, step)
            metrics = self.evaluation.run_state(step, state, views)
            self.writer.write_scalars(step, select_curves(metrics))
            opt_state = observe_metrics(settings.optimizer, state.opt_state, metrics)
            state = dataclasses.replace(state, opt_state=opt_state)
            self.saver.save(state, metrics)
            self.reporter.log_evaluation(
                step, metrics, settings.best_checkpoint, self.saver.best_step
            )
        return state

    def stop(self, step: int, state: TrainState) -> None:
        """Saves the state at which a signal stops the run."""
        with self.reporter.paused():  # This also reads the last step.
            self.saver.save(state)
        logging.warning("Stopped and saved at step %d; the same command resumes the run.", step)

    def fail(self, failure: reporting.NonFiniteLossError, state: TrainState) -> None:
        """Saves the evidence of a failure and the last good state."""
        failure.save(self.run_dir)
        self.saver.save(state)

    def finish(self) -> None:
        """Warns if no checkpoint was better than step 0."""
        settings = self.parts.settings
        if self.saver.best_step == 0 < settings.total_steps:
            metric = settings.best_checkpoint.metric
            logging.warning("%s was best at step 0; training did not improve it.", metric)


@contextlib.contextmanager
def open_outputs(
    parts: Run,
    run_dir: str,
    evaluation: RunEvaluation,
    compute: Compute,
) -> Iterator[Outputs]:
    """Opens the outputs of a start at the step of `compute`; all are written at the end."""
    reporting.forget_skipped(run_dir, compute.step)
    saver = checkpoints.Checkpoints(
        run_dir, parts.settings.checkpoint, parts.settings.best_checkpoint
    )
    with contextlib.closing(saver), contextlib.closing(EventWriter(run_dir)) as writer:
        _write_facts(writer, parts)
        reporter = reporting.Reporter(
            writer,
            total_steps=parts.settings.total_steps,
            batch_size=compute.batch_size,
            every=parts.settings.log_every,
            first_step=compute.step,
            skips_in=run_dir if parts.settings.non_finite == "skip" else None,
        )
        with contextlib.closing(reporter):
            yield Outputs(parts, run_dir, evaluation, saver, writer, reporter)


def _write_facts(writer: EventWriter, parts: Run) -> None:
    """Writes the config and a table of all parameters for TensorBoard's TEXT tab."""
    config = parts.config.to_json_best_effort(indent=2)
    arrays = get_parameter_overview(parts.shapes[0], include_stats=False)
    texts = {"config": config, "parameters": f"{describe(parts)}\n\n{arrays}"}
    writer.write_texts(0, {tag: f"```\n{text}\n```" for tag, text in texts.items()})
