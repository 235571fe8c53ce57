"""Trials for TensorBoard's HPARAMS tab."""

import contextlib
import pathlib
from collections.abc import Sequence

from absl import logging

from xmodal.apps.sweep.record import Outcome
from xmodal.apps.sweep.sweep_report import format_value
from xmodal.evals.reports.summary import select_curves
from xmodal.runs.tensorboard.writer import make_writer, write_settings


def write_hparams(folder: pathlib.Path, outcomes: Sequence[Outcome]) -> None:
    """Writes values, score and metrics of complete trials that are not yet written.

    Args:
      folder: folder of the event files, with one subfolder per trial.
      outcomes: outcomes of some trials.
    """
    for each in outcomes:
        own = folder / each.trial.name
        if each.score is None or own.exists():
            continue
        try:
            writer = make_writer(str(own))
        except ImportError as error:
            logging.log_first_n(logging.WARNING, "No files for TensorBoard: %s.", 1, error)
            return
        values = {
            path: value if isinstance(value, bool | int | float) else format_value(value)
            for path, value in each.trial.values.items()
        }
        with contextlib.closing(writer):
            write_settings(writer, values)
            writer.write_scalars(0, {"score": each.score, **select_curves(each.metrics)})
