"""Opens checkpoints of runs, and several runs as one model, for their evaluation."""

import functools
import os
from collections.abc import Collection, Iterable, Iterator, Sequence

import ml_collections
from absl import logging

from xmodal.core import mesh as mesh_lib
from xmodal.core.result_files import FINAL
from xmodal.evals import Evaluation
from xmodal.evals.scores.embed import Items
from xmodal.train.evaluation.ensemble_subjects import Member, open_ensemble
from xmodal.train.evaluation.model_identity import ModelIdentity
from xmodal.train.evaluation.run_evaluation import RunEvaluation
from xmodal.train.evaluation.sentence_notes import describe_captions, describe_sentences
from xmodal.train.evaluation.subjects import Opened, evaluate_subjects
from xmodal.train.evaluation.suite import Subject
from xmodal.train.folder import checkpoints, run_folder
from xmodal.train.folder.run_records import training_hashes
from xmodal.train.resolve import build_run
from xmodal.train.run_config import RunConfig


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
      is_best: whether the only checkpoint is the best one; its report says what selected it.
    """
    parts, records = evaluation.parts, training_hashes(run_dir)
    how = run_folder.explain_best_step(run_dir) if is_best else ""

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
            notes = functools.partial(_notes, parts.settings, how)
            name = f"{parts.config.name} step {step}"
            yield Subject(name, evaluation.provider(*weights), notes, records, step)

    # The stored config, with the learned words; the config in use may not name them yet.
    identity = ModelIdentity.of_config(run_folder.load_run(run_dir), records)
    tensorboard, settings = parts.settings.tensorboard, parts.config.to_dict()
    return Opened(evaluation.suite, subjects(), identity, tensorboard, settings)


def _notes(settings: RunConfig, how: str, items: Items) -> list[str]:
    notes = [how] if how else []
    notes += describe_captions(settings.data, settings.train_split, items)
    return [*notes, *describe_sentences(settings, items)]


def open_runs(
    folders: Sequence[str],
    configs: Sequence[ml_collections.ConfigDict],
    *,
    split: str | None,
    step: str,
    names: Collection[str] | None = None,
) -> Opened:
    """Returns several runs as one model, see `open_ensemble`.

    Args:
      folders: the runs' folders.
      configs: the runs' configs.
      split: `Request.split`.
      step: checkpoint of every run: its step, `best` or `latest`.
      names: evaluators of the first run to use, which the others must also have; None for all.

    Raises:
      UserError: a run has no such checkpoint or evaluator, or the runs read different items.
    """
    mesh, members = mesh_lib.make_mesh(), []
    for folder, config in zip(folders, configs, strict=True):
        chosen = run_folder.resolve_step(folder, step)
        parts = build_run(config, mesh)
        members.append(
            Member(
                f"{config.name} step {chosen}",
                folder,
                RunEvaluation(parts, names=names, trains=False),
                functools.partial(checkpoints.restore_model, folder, chosen, parts.shapes, mesh),
                ModelIdentity.of_config(config, training_hashes(folder)),
            )
        )
    return open_ensemble(members, split)
