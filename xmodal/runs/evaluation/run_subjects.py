"""Opens checkpoints of runs, and several runs as one model, for their evaluation."""

import functools
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import cast

import ml_collections
import numpy as np
from absl import logging

from xmodal.base import mesh as mesh_lib
from xmodal.base.config import UserError, lookup
from xmodal.base.result_files import FINAL
from xmodal.evals import Evaluation
from xmodal.evals.embed import Items
from xmodal.evals.evaluators import Split
from xmodal.evals.provider import Ensemble, ModelProvider
from xmodal.runs import run
from xmodal.runs.config.run_config import RunConfig
from xmodal.runs.evaluation.model_identity import ModelIdentity
from xmodal.runs.evaluation.run_evaluation import RunEvaluation
from xmodal.runs.evaluation.sentence_notes import describe_prompt, describe_sentences
from xmodal.runs.evaluation.subjects import Opened, evaluate_subjects
from xmodal.runs.evaluation.suite import EvalSuite, Subject
from xmodal.runs.folder import checkpoints, run_folder
from xmodal.runs.folder.run_records import training_hashes


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
