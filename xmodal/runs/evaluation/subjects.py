"""Evaluates runs, ensembles, published towers and files by a suite, and writes the results."""

import contextlib
import functools
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import ml_collections
import numpy as np
from absl import logging

from xmodal.base import mesh as mesh_lib
from xmodal.base.config import UserError, lookup
from xmodal.evals import Evaluation, read_options
from xmodal.evals.embed import Items
from xmodal.evals.evaluators import Options, Split
from xmodal.evals.inputs.files import name_of, open_embeddings
from xmodal.evals.inputs.sources import Embeddings
from xmodal.evals.provider import Ensemble, ModelProvider
from xmodal.runs import run
from xmodal.runs.config.run_config import RunConfig
from xmodal.runs.config.sizes import resolve_sizes
from xmodal.runs.evaluation.evaluation_files import event_writer, read_others, write_all
from xmodal.runs.evaluation.model_identity import ModelIdentity
from xmodal.runs.evaluation.run_evaluation import RunEvaluation
from xmodal.runs.evaluation.sentence_notes import describe_prompt, describe_sentences
from xmodal.runs.evaluation.suite import FINAL_SPLITS, EvalSuite, Request, Subject
from xmodal.runs.folder import checkpoints, run_folder
from xmodal.runs.folder.finished import FINAL
from xmodal.runs.folder.run_records import training_hashes
from xmodal.runs.tensorboard.example_views import TensorBoardConfig, Views, read_config
from xmodal.runs.tensorboard.writer import EventWriter
from xmodal.training.optimization.run_lengths import resolve_epochs

_VECTORS = (None, "vector")


class Opened(NamedTuple):
    """What a command evaluates.

    Attributes:
      suite: the evaluators.
      subjects: the models, each made when it is its turn, such as the checkpoints of a run.
      identity: the model whose results these are.
      tensorboard: what to show there.
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
    check_lock: Callable[[], None] | None = None,
) -> list[Evaluation]:
    """Evaluates models one by one; writes and prints all results, a follower one line of each.

    Args:
      opened: models and evaluators.
      output: folder for the results, see `evaluation_files.write_all`.
      request: what to evaluate and to save.
      keep_others: whether to keep numbers of the same step from evaluators not in the suite.
      check_lock: for a follower, whose steps continue those of an earlier call: raises if another
        process has taken over `output`.

    Returns:
      One evaluation per evaluator, of the last model.

    Raises:
      UserError: the step or split does not exist, models differ, or a folder is not writable.
    """
    suite, subjects, identity, tensorboard, settings = opened
    others = suite.load_others(request)
    evaluations: list[Evaluation] = []
    entered: contextlib.AbstractContextManager = event_writer(output, settings)
    if check_lock:  # Its curves continue, and the run that it follows has a row of settings.
        entered = contextlib.closing(EventWriter(output))
    with entered as writer:
        for subject in subjects:
            step = subject.step
            views = Views(writer, tensorboard, step or 0)
            kept: dict[str, float] = {}
            if keep_others and step is not None:  # Before any work, since it may be damaged.
                kept = read_others(output, step, suite.options)
            evaluations = suite.evaluate(subject, request, others=others, view=views)
            if check_lock:
                check_lock()
            follows = check_lock is not None
            write_all(evaluations, output, identity, others, views, step, kept, brief=follows)
    return evaluations


def evaluate_best(evaluation: RunEvaluation, run_dir: str) -> list[Evaluation]:
    """Evaluates the best checkpoint of a run on the final splits into `RUN_DIR/test`."""
    best = run_folder.best_step(run_dir)
    opened = open_run(evaluation, run_dir, [best], is_best=True)
    return evaluate_subjects(opened, os.path.join(run_dir, FINAL))


def open_run(
    evaluation: RunEvaluation,
    run_dir: str,
    steps: Iterable[int],
    *,
    follows: bool = False,
    is_best: bool = False,
) -> Opened:
    """Returns checkpoints of a run.

    Args:
      evaluation: the evaluation of the run.
      run_dir: its folder.
      steps: its checkpoints.
      follows: whether those that the run has replaced are skipped.
      is_best: whether the only checkpoint is the best one; its report says if a tie was broken.
    """
    parts, records = evaluation.parts, training_hashes(run_dir)
    tie = run_folder.explain_best_step(run_dir) if is_best else ""

    def subjects() -> Iterator[Subject]:
        for step in steps:
            try:
                weights = checkpoints.restore_model(run_dir, step, parts.shapes, parts.mesh)
            except (FileNotFoundError, ValueError):
                if not follows or step in run_folder.steps(run_dir):
                    raise
                # A run keeps only its last few checkpoints.
                logging.warning("Checkpoint %d was replaced while it was being read.", step)
                continue
            notes = functools.partial(_notes, parts.settings, tie)
            name = f"{parts.config.name} step {step}"
            yield Subject(name, evaluation.provider(*weights), notes, records, step)

    # The stored config, with the learned words; the config in use may not name them yet.
    identity = ModelIdentity.of_config(run_folder.load_run(run_dir), records)
    tensorboard, settings = parts.settings.tensorboard, parts.config.to_dict()
    return Opened(evaluation.suite, subjects(), identity, tensorboard, settings)


def _notes(settings: RunConfig, tie: str, items: Items) -> list[str]:
    notes = [*filter(None, [tie]), *describe_prompt(settings.data)]
    return [*notes, *describe_sentences(settings, items)]


def open_ensemble(
    folders: Sequence[str],
    configs: Sequence[ml_collections.ConfigDict],
    *,
    split: str | None,
    step: str,
    names: Collection[str] | None = None,
) -> Opened:
    """Returns several runs as one model, whose scores are the means of theirs.

    Args:
      folders: the runs' folders.
      configs: the runs' configs.
      split: `Request.split`.
      step: checkpoint of every run: its step, `best` or `latest`.
      names: evaluators of the first run to use, which the others must also have; None for all.

    Raises:
      UserError: a run has no such checkpoint or evaluator, or the runs read different items.
    """
    mesh = mesh_lib.make_mesh()
    steps = [run_folder.resolve_step(folder, step) for folder in folders]
    runs = [RunEvaluation(run.build(each, mesh), names=names, trains=False) for each in configs]
    suite, tensorboard = runs[0].suite, runs[0].parts.settings.tensorboard

    def subjects() -> Iterator[Subject]:
        members: list[tuple[ModelProvider, Callable[[Items], Items]]] = []
        for folder, each, chosen in zip(folders, runs, steps, strict=True):
            own = _own_items(suite, each.suite, split, (folders[0], folder))
            weights = checkpoints.restore_model(folder, chosen, each.parts.shapes, mesh)
            members.append((each.provider(*weights), own))
        labels = [f"{c.name} step {chosen}" for c, chosen in zip(configs, steps, strict=True)]
        note = f"Scores are means of those of {' and '.join(labels)}."
        yield Subject(" + ".join(labels), Ensemble(members), lambda items: [note])

    pairs = zip(configs, map(training_hashes, folders), strict=True)
    identity = ModelIdentity.of_several([ModelIdentity.of_config(*each) for each in pairs])
    return Opened(suite, subjects(), identity, tensorboard)


def _own_items(
    first: EvalSuite, other: EvalSuite, split: str | None, folders: tuple[str, str]
) -> Callable[[Items], Items]:
    """Returns the function from the first run's items to another's, read by its own tokenizer.

    Raises:
      UserError: an evaluator uses different items for the runs; ids may coincide.
    """
    own = {}
    for name in first.options:
        lookup(f"config.evals of {folders[1]}", name, other.options)
        chosen = first.split_of(name, split)
        evaluated = [cast(Split, each.items(name, chosen)) for each in (first, other)]
        for split_read in (chosen, *first.options[name].splits_read):
            ours, theirs = (
                each if split_read == chosen else each.beside(split_read) for each in evaluated
            )
            common = ours.hashes.keys() & theirs.hashes.keys()
            if any(ours.hashes[key] != theirs.hashes[key] for key in common) or not np.array_equal(
                ours.caption_texts, theirs.caption_texts
            ):
                raise UserError(
                    f"The evaluator {name!r} of {folders[0]} and of {folders[1]} uses different "
                    f"records of the split {split_read!r}; only runs on the same images and "
                    "captions can be averaged."
                )
            own[id(ours)] = cast(Items, theirs)
    return lambda items: own[id(items)]


def open_file(
    path: str,
    config: ml_collections.ConfigDict,
    *,
    names: Collection[str] | None = None,
    similarity: str | None = None,
    name: str | None = None,
) -> Opened:
    """Returns a file of embeddings by id or of sentences, and the evaluators of a config.

    Args:
      path: npz file, see `open_embeddings`.
      config: config of a run; only its sections `data` and `evals` are used.
      names: evaluators to use; None for all that rank vectors.
      similarity: see `choose_similarity`.
      name: name of the model's row; None for that of the file.

    Raises:
      UserError: the file cannot be used, an evaluator is unknown or ranks other arrays than
        vectors, or a dataset is missing.
    """
    source = open_embeddings(path, similarity)
    sides = source.sides if isinstance(source, Embeddings) else frozenset({"text"})
    sections = {name: config[name].to_dict() for name in ("data", "evals")}
    sections = resolve_epochs(resolve_sizes(sections, 0), 1)
    # Only the evaluators that the user named must exist.
    names = names or _keep_vectors(path, read_options(sections["evals"]))
    suite = EvalSuite(sections, sides, mesh_lib.make_mesh(), names)
    if others := _other_fields(suite.options):
        raise UserError(_explain(path, others))
    subject, identity = (
        Subject(name or name_of(path), source),
        ModelIdentity.of_file(path, similarity),
    )
    return Opened(suite, [subject], identity, read_config(config))


def _keep_vectors(path: str, options: Mapping[str, Options]) -> list[str]:
    """Returns the evaluators that rank vectors, which are all that a file has; or all if none."""
    others = _other_fields(options)
    kept = [name for name in options if name not in others]
    if others and kept:
        logging.warning("Left out: %s", _explain(path, others))
    return kept or list(options)


def _other_fields(options: Mapping[str, Options]) -> dict[str, str | None]:
    """Returns evaluator -> array, for those that rank other arrays than vectors."""
    return {name: each.field for name, each in options.items() if each.field not in _VECTORS}


def _explain(path: str, others: Mapping[str, str | None]) -> str:
    listed = " and ".join(f"config.evals.{name} ranks {field!r}" for name, field in others.items())
    return (
        f"{listed}, but {path} has one array per item, the vectors. To evaluate another array, "
        f"save it with --run=RUN --evaluators={next(iter(others))} --save_embeddings=FILE, and "
        "evaluate that file with an evaluator that names no field."
    )
