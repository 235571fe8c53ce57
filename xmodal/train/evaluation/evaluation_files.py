"""Prints finished evaluations and writes their files, for every command."""

import contextlib
import dataclasses
import os
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
from absl import logging
from etils import epath

from xmodal.core import processes, result_files
from xmodal.core.errors import UserError
from xmodal.core.event_writer import EventWriter
from xmodal.core.json_files import read_json, read_numbers
from xmodal.evals.reports.evaluation import EXAMPLES, REPORT
from xmodal.evals.reports.metrics import MEAN_SELECTED
from xmodal.evals.reports.summary import select_curves
from xmodal.train.evaluation.model_identity import ModelIdentity

if TYPE_CHECKING:
    from xmodal.evals import Evaluation
    from xmodal.evals.reports.store import StoredResults
    from xmodal.train.tensorboard.example_views import Views

# Suffix of event files that hold one evaluation, so that the next one can remove them.
_EVENTS_END = ".evaluation"
_MODEL = "model.json"


def check_output(output: str, model: ModelIdentity, *, overwrite: bool = False) -> None:
    """Raises an error if a folder is not writable or has results of another model.

    All processes call it, before doing any work.

    Raises:
      UserError: the folder cannot be written, or holds results of another model and `overwrite` is
        not set.
    """

    def check() -> None:
        result_files.check_writable(output)
        folder = epath.Path(output)
        if overwrite or not (folder / "metrics.json").exists():
            return
        path, remedy = folder / _MODEL, "replace the results with --overwrite."
        before = read_json(path, remedy) if path.exists() else {}
        if before.get("hash") != model.hash:
            raise UserError(
                f"{output} has results of {before.get('name', 'an unknown model')}, which differs "
                f"from {model.name} in its settings, vocabulary or training records; replace them "
                "with --overwrite, or use another --output."
            )

    processes.first_does(f"check {output}", check)


@contextlib.contextmanager
def event_writer(output: str, settings: Mapping[str, Any] | None = None) -> Iterator[EventWriter]:
    """Yields a writer for TensorBoard whose file replaces that of an earlier evaluation.

    Other files in the folder, such as those of training, are kept.

    Args:
      output: folder for the results.
      settings: settings of the model, shown with its numbers in the HPARAMS tab; None for no row.

    Raises:
      UserError: the folder cannot be written.
    """
    older = [each.name for each in epath.Path(output).glob(f"events.*{_EVENTS_END}")]
    with tempfile.TemporaryDirectory() as folder:
        with contextlib.closing(EventWriter(folder)) as writer:
            if settings is not None:
                writer.write_settings(settings)
            yield writer
        if jax.process_index() == 0:
            new = {f"{e.name}{_EVENTS_END}": e.read_bytes() for e in epath.Path(folder).iterdir()}
            result_files.write_files(output, new, stale=older)


def print_pages(evaluations: Sequence["Evaluation"], output: str) -> None:
    """Prints where the pages of written evaluations are, on process 0 only.

    Args:
      evaluations: evaluations of one model.
      output: folder of the results, with a folder for every evaluator that has a name.
    """
    for each in evaluations if jax.process_index() == 0 else ():
        folder = os.path.join(output, each.evaluator)
        print(f"Report: {os.path.join(folder, REPORT)}", flush=True)
        if each.page is not None:
            print(f"Examples: {os.path.join(folder, EXAMPLES)}", flush=True)


def write_all(
    evaluations: Sequence["Evaluation"],
    output: str,
    model: ModelIdentity,
    others: Mapping[str, "StoredResults"],
    views: "Views",
    step: int | None = None,
    kept: Mapping[str, float] | None = None,
    *,
    brief: bool = False,
) -> None:
    """Writes and prints the evaluations of all evaluators of a model.

    Args:
      evaluations: one per evaluator.
      output: folder for `metrics.json` and `metrics.csv`, whose tags begin with the evaluators'
        names, and for a folder EVALUATOR with the results of each.
      model: the evaluated model.
      others: evaluator -> another model to compare with; "" is the evaluator of files.
      views: views that received these evaluations; their writer gets the scalars and reports.
      step: step of the evaluated checkpoint, if it was one: the first entry of `metrics.json`;
        `steps/STEP.json` is written for it.
      kept: numbers of the same step from other evaluators, see `read_others`.
      brief: whether to log one line in place of the tables.

    Raises:
      UserError: the models cannot be compared, or a folder cannot be written.
    """
    if jax.process_index() != 0:
        return
    # Before the results, so that all results have it.
    result_files.write_files(output, {_MODEL: result_files.format_json(dataclasses.asdict(model))})
    metrics, reports, headline = dict(kept or {}), {}, []
    for each in evaluations:
        other, comparison = others.get(each.evaluator), None
        if other is not None and each.stored.results:
            comparison = each.compare(other)
        each.save(os.path.join(output, each.evaluator), comparison=comparison)
        reports[f"{each.evaluator}/report".strip("/")] = each.report()
        if not brief:
            parts = [each.report(), comparison]
            print(*(part for part in parts if part is not None), sep="\n", flush=True)
        metrics |= each.tagged
        # The number that selects checkpoints, or else the first.
        tags = sorted(each.tagged, key=lambda tag: tag.rpartition("/")[2] not in MEAN_SELECTED)
        headline += [f"{tag} {each.tagged[tag]:.4g}" for tag in tags[:1]]
    if brief:
        logging.info("step %s  %s", step, "  ".join(headline))
    own = {tag: x for each in evaluations for tag, x in each.tagged.items()}
    views.writer.write_scalars(step or 0, select_curves(own))
    views.writer.write_texts(step or 0, reports)
    views.writer.flush()
    views.write_projector(output)
    numbers, head = result_files.format_json(metrics), {} if step is None else {"step": step}
    contents = {
        "metrics.csv": result_files.format_csv(evaluations[0].name, metrics),
        "metrics.json": result_files.format_json(head | metrics),
    }
    result_files.write_files(output, contents)
    if step is not None:
        # Written last: for --follow, this file shows that the step is done.
        result_files.write_files(os.path.join(output, "steps"), {f"{step}.json": numbers})


def read_others(output: str, step: int, evaluators: Collection[str]) -> dict[str, float]:
    """Returns the stored numbers of a step from other evaluators, NaN where undefined.

    Raises:
      UserError: their file is damaged.
    """
    path = epath.Path(output) / "steps" / f"{step}.json"
    remedy = "remove it and evaluate this step again with all evaluators."
    known = read_numbers(path, remedy) if path.exists() else {}
    return {tag: x for tag, x in known.items() if tag.partition("/")[0] not in evaluators}
