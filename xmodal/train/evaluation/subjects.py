"""Evaluates models by a suite and writes the results; opens the files of any model.

`run_subjects` opens runs, which takes the libraries of training.
"""

import contextlib
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

import ml_collections
from absl import logging

from xmodal import data
from xmodal.core import mesh as mesh_lib
from xmodal.core.errors import UserError
from xmodal.core.event_writer import EventWriter
from xmodal.evals import Evaluation, read_options
from xmodal.evals.evaluators import Options
from xmodal.evals.evaluators.benchmarks import BenchmarksOptions
from xmodal.evals.scores.files import modalities_of, name_of, open_source
from xmodal.train.evaluation.evaluation_files import event_writer, read_others, write_all
from xmodal.train.evaluation.model_identity import ModelIdentity
from xmodal.train.evaluation.suite import FINAL_SPLITS, EvalSuite, Request, Subject
from xmodal.train.optimization.run_lengths import resolve_epochs, resolve_sizes
from xmodal.train.tensorboard.example_views import TensorBoardConfig, Views, read_config


class Opened(NamedTuple):
    """The models that a command evaluates.

    Attributes:
      suite: the evaluators.
      subjects: the models, each made when it is its turn, such as the checkpoints of a run.
      identity: the model whose results these are.
      tensorboard: options of its views.
      settings: settings of the model for TensorBoard's HPARAMS tab; None for no row.
    """

    suite: EvalSuite
    subjects: Iterable[Subject]
    identity: ModelIdentity
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
      output: folder for the results, see `evaluation_files.write_all`.
      request: the splits to evaluate and the files to save.
      keep_others: whether to keep numbers of the same step from evaluators not in the suite.
      follows: whether these are steps of a run that is followed, whose curves continue those of an
        earlier call.

    Returns:
      One evaluation per evaluator, of the last model.

    Raises:
      UserError: the step or split does not exist, models differ, or a folder is not writable.
    """
    suite, subjects, identity, tensorboard, settings = opened
    others = suite.load_others(request)
    evaluations: list[Evaluation] = []
    entered: contextlib.AbstractContextManager = event_writer(output, settings)
    if follows:  # Its curves continue, and the run that it follows has a row of settings.
        entered = contextlib.closing(EventWriter(output))
    with entered as writer:
        for subject in subjects:
            step, views = subject.step, Views(writer, tensorboard, subject.step or 0)
            kept: dict[str, float] = {}
            if keep_others and step is not None:  # Before any work, since it may be damaged.
                kept = read_others(output, step, suite.options)
            evaluations = suite.evaluate(subject, request, others=others, view=views)
            write_all(evaluations, output, identity, others, views, step, kept, brief=follows)
    return evaluations


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
      similarity: see `choose_similarity`.
      name: name of the model's row; None for that of the file.

    Raises:
      UserError: the file cannot be used, an evaluator is unknown or needs more than the file has,
        or a dataset is missing.
    """
    source = open_source(kind, path, ids, similarity)
    sections = {name: config[name].to_dict() for name in ("data", "evals")}
    sections = resolve_epochs(resolve_sizes(sections, 0), 1)
    options = read_options(sections["evals"])
    lacking = {name: _lacks(kind, each) for name, each in options.items()}
    possible = [name for name, what in lacking.items() if not what]
    if left_out := [name for name in names or lacking if lacking.get(name)]:
        needs = " and ".join(f"config.evals.{name} needs {lacking[name]}" for name in left_out)
        needs += (
            f", which {path} lacks: evaluate the model itself, with --run=RUN, name other "
            "evaluators in --evaluators, or set --config.evals.NAME.reranker=None."
        )
        if names or not possible:
            raise UserError(needs)
        logging.warning("Left out: %s", needs)
    run, mesh = data.parse(sections["data"]), mesh_lib.make_mesh()
    suite = EvalSuite(options, run, modalities_of(source), mesh, names or possible)
    subject = Subject(name or name_of(path), source)
    identity = ModelIdentity.of_file(path, similarity, ids)
    return Opened(suite, [subject], identity, read_config(config))


def _lacks(kind: str, options: Options) -> str:
    """Returns what an evaluator needs and a file of this kind lacks, or ""."""
    if options.scores_pairs:
        return "a cross-encoder"
    if options.field not in (None, "vector"):
        return f"the array {options.field!r}"
    if kind != "embeddings" and (not isinstance(options, BenchmarksOptions) or options.reranker):
        return "embeddings"
    return ""
