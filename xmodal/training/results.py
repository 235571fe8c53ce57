"""What is done with a finished evaluation, whatever was evaluated and by whichever command."""

import contextlib
import os
import tempfile
from typing import TYPE_CHECKING

import jax
from absl import logging
from etils import epath

from xmodal.evals.reports import files
from xmodal.evals.reports.compare import format_comparison
from xmodal.training import reporting

if TYPE_CHECKING:
    from clu import metric_writers

    from xmodal.evals import Evaluation
    from xmodal.evals.reports.store import StoredResults

# Ends the names of event files that hold one evaluation, so that the next one can remove them.
_EVENTS_END = ".evaluation"


def check_output(output: str) -> None:
    """Refuses a folder that cannot be written; to be called before the work.

    Raises:
      UserError: the folder cannot be written.
    """
    if jax.process_index() == 0:
        files.check_writable(output)


def write_results(
    evaluation: "Evaluation",
    output: str,
    *,
    other: "StoredResults | None" = None,
    step: int | None = None,
    writer: "metric_writers.MetricWriter | None" = None,
) -> None:
    """Writes and prints everything there is to an evaluation, on process 0 only.

    Args:
      evaluation: the evaluation.
      output: folder of the results, see `Evaluation.save`.
      other: another model to compare with.
      step: of the checkpoint that was evaluated, if it was one; named in `metrics.json`, and
        `steps/STEP.json` is written for it.
      writer: of TensorBoard scalars, of one step after the other. By default they go to a file of
        their own in `output`, the only one of its kind there.

    Raises:
      UserError: the models cannot be compared, or the folder cannot be written.
    """
    comparison = None if other is None else evaluation.compare(other)
    other_name = "" if other is None else other.name
    if writer is not None:
        writer.write_scalars(step or 0, evaluation.metrics)
        writer.flush()
    if jax.process_index() != 0:
        return
    evaluation.save(
        output,
        comparison=comparison,
        other=other_name,
        extra={} if step is None else {"step": step},
    )
    if writer is None:
        _replace_events(output, evaluation)
    if step is not None:
        # Written last: --follow takes this file as the sign that the step is done.
        numbers = files.format_json(evaluation.metrics)
        files.write_files(os.path.join(output, "steps"), {f"{step}.json": numbers})
    print(evaluation.report(), flush=True)
    if comparison is not None:
        text = format_comparison(comparison, name=evaluation.name, other=other_name)
        print(text, flush=True)


def _replace_events(output: str, evaluation: "Evaluation") -> None:
    """Writes TensorBoard scalars at step 0; those of an earlier evaluation go, whatever comes."""
    events = {}
    with tempfile.TemporaryDirectory() as folder:
        try:
            writer = reporting.make_writer(folder, log=False)
        except ImportError as error:
            logging.warning("TensorBoard scalars are not written: %s.", error)
        else:
            with contextlib.closing(writer):
                writer.write_scalars(0, evaluation.metrics)
            events = {
                f"{path.name}{_EVENTS_END}": path.read_bytes()
                for path in epath.Path(folder).iterdir()
            }
    older = epath.Path(output).glob(f"events.out.tfevents.*{_EVENTS_END}")
    files.write_files(output, events, stale=[path.name for path in older])
