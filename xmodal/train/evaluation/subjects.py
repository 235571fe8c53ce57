"""Evaluates models by a suite and writes the results; opens the files of any model.

`run_subjects` opens runs, which takes the libraries of training.
"""

import contextlib
import os
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import ml_collections
from absl import logging
from etils import epath

from xmodal import data
from xmodal.core import mesh as mesh_lib
from xmodal.core.config import read
from xmodal.core.errors import UserError
from xmodal.core.files import format_csv, format_json, read_numbers, write_files
from xmodal.evals import Evaluation, read_options
from xmodal.evals.evaluators import Options
from xmodal.evals.evaluators.benchmarks import BenchmarksOptions
from xmodal.evals.reports.evaluation import EXAMPLES, REPORT
from xmodal.evals.reports.metrics import MEAN_SELECTED
from xmodal.evals.reports.summary import select_curves
from xmodal.evals.scores.files import modalities_of, name_of, open_source
from xmodal.train.evaluation.suite import FINAL_SPLITS, EvalSuite, Request, Subject
from xmodal.train.event_writer import EventWriter
from xmodal.train.optimization.run_lengths import resolve_epochs, resolve_sizes
from xmodal.train.tensorboard import TensorBoardConfig, Views

# Suffix of event files that hold one evaluation, so that the next one can remove them.
_EVENTS_END = ".evaluation"


class Opened(NamedTuple):
    """The models that a command evaluates.

    Attributes:
      suite: the evaluators.
      subjects: the models, each made when it is its turn, such as the checkpoints of a run.
      tensorboard: options of its views.
      settings: settings of the model for TensorBoard's HPARAMS tab; None for no row.
    """

    suite: EvalSuite
    subjects: Iterable[Subject]
    tensorboard: TensorBoardConfig
    settings: Mapping[str, Any] | None = None


def evaluate_subjects(
    opened: Opened,
    output: str,
    request: Request = FINAL_SPLITS,
    *,
    keep_others: bool = False,
    follows: bool = False,
) -> list[Evaluation]:
    """Evaluates models one by one; writes and prints all results, a follower one line of each.

    Args:
      opened: models and evaluators.
      output: folder for the results, see `write_all`.
      request: the splits to evaluate and the files to save.
      keep_others: whether to keep numbers of the same step from evaluators not in the suite.
      follows: whether these are steps of a run that is followed, whose curves continue those of an
        earlier call.

    Returns:
      One evaluation per evaluator, of the last model.
    """
    suite, subjects, tensorboard, settings = opened
    others = suite.load_others(request)
    evaluations: list[Evaluation] = []
    # A follower's curves continue, and the run that it follows has a row of settings.
    continued = contextlib.closing(EventWriter(output)) if follows else None
    with continued or event_writer(output, settings) as writer:
        for subject in subjects:
            step, views = subject.step, Views(writer, tensorboard, subject.step or 0)
            # Before any work, since it may be damaged.
            kept = read_others(output, step, suite.options) if keep_others else {}
            evaluations = suite.evaluate(subject, request, others=others, view=views)
            write_all(evaluations, output, others, views, step, kept, brief=follows)
    return evaluations


@contextlib.contextmanager
def event_writer(output: str, settings: Mapping[str, Any] | None = None) -> Iterator[EventWriter]:
    """Yields a writer for TensorBoard whose file replaces that of an earlier evaluation.

    Other files in the folder, such as those of training, are kept.

    Args:
      output: folder for the results.
      settings: settings of the model, shown with its numbers in the HPARAMS tab; None for no row.
    """
    with tempfile.TemporaryDirectory() as folder:
        with contextlib.closing(EventWriter(folder)) as writer:
            if settings is not None:
                writer.write_settings(settings)
            yield writer
        if jax.process_index() == 0:
            older = [each.name for each in epath.Path(output).glob(f"events.*{_EVENTS_END}")]
            new = {f"{e.name}{_EVENTS_END}": e.read_bytes() for e in epath.Path(folder).iterdir()}
            write_files(output, new, stale=older)


def print_pages(evaluations: Sequence[Evaluation], output: str) -> None:
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
    evaluations: Sequence[Evaluation],
    output: str,
    others: Mapping[str, Evaluation],
    views: Views,
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
      others: evaluator -> another model to compare with; "" is the evaluator of files.
      views: views that received these evaluations; their writer gets the scalars and reports.
      step: step of the evaluated checkpoint, if it was one: the first entry of `metrics.json`;
        `steps/STEP.json` is written for it.
      kept: numbers of the same step from other evaluators, see `read_others`.
      brief: whether to log one line in place of the tables.
    """
    if jax.process_index() != 0:
        return
    own, headline = dict[str, float](), []
    for each in evaluations:
        other, comparison = others.get(each.evaluator), None
        if other is not None and each.comparable:
            comparison = each.compare(other)
        each.save(os.path.join(output, each.evaluator), comparison=comparison)
        own |= each.tagged
        if not brief:
            print(each.report(), *filter(None, [comparison]), sep="\n", flush=True)
        # The number that selects checkpoints, or else the first.
        tags = sorted(each.tagged, key=lambda tag: tag.rpartition("/")[2] not in MEAN_SELECTED)
        headline += [f"{tag} {each.tagged[tag]:.4g}" for tag in tags[:1]]
    if brief:
        logging.info("step %s  %s", step, "  ".join(headline))
    reports = {f"{each.evaluator}/report".strip("/"): each.report() for each in evaluations}
    views.writer.write_scalars(step or 0, select_curves(own))
    views.writer.write_texts(step or 0, reports)
    views.writer.flush()
    views.write_projector(output)
    metrics = {**(kept or {}), **own}
    contents = {
        "metrics.csv": format_csv(evaluations[0].name, metrics),
        "metrics.json": format_json(({} if step is None else {"step": step}) | metrics),
    }
    write_files(output, contents)
    if step is not None:
        # Written last: for --follow, this file shows that the step is done.
        write_files(os.path.join(output, "steps"), {f"{step}.json": format_json(metrics)})


def read_others(output: str, step: int | None, evaluators: Collection[str]) -> dict[str, float]:
    """Returns the stored numbers of a step from other evaluators, NaN where undefined."""
    path = epath.Path(output) / "steps" / f"{step}.json"
    remedy = "remove it and evaluate this step again with all evaluators."
    known = read_numbers(path, remedy) if path.exists() else {}
    return {tag: x for tag, x in known.items() if tag.partition("/")[0] not in evaluators}


def open_file(
    path: str,
    config: ml_collections.ConfigDict,
    *,
    kind: str = "embeddings",
    ids: str | None = None,
    names: Collection[str] | None = None,
    similarity: str | None = None,
    name: str | None = None,
) -> Opened:
    """Returns a file of a model, and the evaluators of a config.

    Args:
      path: file of embeddings, of scores or of ranked lists.
      config: config of a run; only its sections `data` and `evals` are used.
      kind: "embeddings", "scores" or "rankings".
      ids: see `open_source`.
      names: evaluators to use; None for all that such a file allows.
      similarity: see `files.open_source`.
      name: name of the model's row; None for that of the file.
    """
    source = open_source(kind, path, ids, similarity)
    subject = Subject(name or name_of(path), source)
    return open_adapter(subject, config, modalities_of(source), kind=kind, names=names)


def open_adapter(
    subject: Subject,
    config: ml_collections.ConfigDict,
    modalities: Collection[str],
    *,
    kind: str = "embeddings",
    names: Collection[str] | None = None,
) -> Opened:
    """Returns a model of embeddings, or a file, and the evaluators of a config.

    Args:
      subject: the model.
      config: see `open_file`.
      modalities: the modalities that it embeds.
      kind: see `open_file`.
      names: see `open_file`.
    """
    sections = {name: config[name].to_dict() for name in ("data", "evals")}
    sections = resolve_epochs(resolve_sizes(sections, 0), 1)
    options = read_options(sections["evals"])
    lacking = {name: _lacks(kind, each) for name, each in options.items()}
    possible = [name for name, what in lacking.items() if not what]
    if left_out := [name for name in names or lacking if lacking.get(name)]:
        needs = " and ".join(f"config.evals.{name} needs {lacking[name]}" for name in left_out)
        needs += (
            f", which {subject.adapter.place} lacks: evaluate the model itself, with --run=RUN, "
            "name other evaluators in --evaluators, or set --config.evals.NAME.reranker=None."
        )
        if names or not possible:
            raise UserError(needs)
        logging.warning("Left out: %s", needs)
    run, mesh = data.parse(sections["data"]), mesh_lib.make_mesh()
    suite = EvalSuite(options, run, modalities, mesh, names or possible)
    tensorboard = dict(config.get("tensorboard") or {})
    return Opened(suite, [subject], read(TensorBoardConfig, "config.tensorboard", tensorboard))


def _lacks(kind: str, options: Options) -> str:
    """Returns what an evaluator needs and a file of this kind lacks, or ""."""
    if options.scores_pairs:
        return "a cross-encoder"
    field = (options.similarity or {}).get("field", "vector")
    if field != "vector":
        return f"the array {field!r}"
    if kind != "embeddings" and (not isinstance(options, BenchmarksOptions) or options.reranker):
        return "embeddings"
    return ""
