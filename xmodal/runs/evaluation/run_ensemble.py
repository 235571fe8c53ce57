"""Evaluates the mean of the scores of several runs, which papers report for two models."""

from collections.abc import Collection, Sequence

import ml_collections
import numpy as np

from xmodal.base import mesh as mesh_lib
from xmodal.base.config import UserError, lookup
from xmodal.evals import Evaluation
from xmodal.runs import run
from xmodal.runs.evaluation.evaluation_files import event_writer, write_all
from xmodal.runs.evaluation.model_identity import ModelIdentity
from xmodal.runs.evaluation.run_evaluation import RunEvaluation
from xmodal.runs.evaluation.suite import FINAL_SPLITS, EvalSuite, Request
from xmodal.runs.folder import checkpoints, run_folder
from xmodal.runs.folder.run_records import training_hashes
from xmodal.runs.tensorboard.example_views import Views


def evaluate_runs(
    folders: Sequence[str],
    configs: Sequence[ml_collections.ConfigDict],
    output: str,
    request: Request = FINAL_SPLITS,
    *,
    step: str,
    names: Collection[str] | None = None,
) -> list[Evaluation]:
    """Evaluates runs together; prints, writes and returns all results.

    Args:
      folders: the runs' folders.
      configs: the runs' configs.
      output: folder for the results, see `results.write_all`.
      request: what to evaluate; the embeddings are not saved.
      step: checkpoint of every run: its step, `best` or `latest`.
      names: evaluators of the first run to use, which the others must also have; None for all.

    Raises:
      UserError: a run has no such checkpoint or evaluator, or their scores cannot be averaged.
    """
    mesh = mesh_lib.make_mesh()
    steps = [run_folder.resolve_step(folder, step) for folder in folders]
    members = []
    for folder, config, chosen in zip(folders, configs, steps, strict=True):
        parts = run.build(config, mesh)
        evaluation = RunEvaluation(parts, names=names, trains=False)
        members.append((evaluation, *checkpoints.restore_model(folder, chosen, parts.shapes, mesh)))
    first, params, model_state = members[0]
    others = first.suite.load_others(request)
    for folder, (other, *_) in zip(folders[1:], members[1:], strict=True):
        _check_items(first.suite, other.suite, request.split, (folders[0], folder))
    labels = [f"{c.name} step {chosen}" for c, chosen in zip(configs, steps, strict=True)]
    with event_writer(output) as writer:
        views = Views(writer, first.parts.settings.tensorboard, 0)
        evaluations = first.evaluate(
            params,
            model_state,
            name=" + ".join(labels),
            request=request,
            notes=lambda _: [f"Scores are means of those of {' and '.join(labels)}."],
            together_with=[each.embedding(*weights) for each, *weights in members[1:]],
            others=others,
            view=views,
        )
        write_all(evaluations, output, identity(folders, configs), others, views)
    return evaluations


def _check_items(
    first: EvalSuite, other: EvalSuite, split: str | None, folders: tuple[str, str]
) -> None:
    """Raises an error if an evaluator uses different items for the runs; ids may coincide."""
    for name in first.options:
        lookup(f"config.evals of {folders[1]}", name, other.options)
        chosen = first.split_of(name, split)
        ours, theirs = (each.items(name, chosen) for each in (first, other))
        common = ours.hashes.keys() & theirs.hashes.keys()
        if any(ours.hashes[key] != theirs.hashes[key] for key in common) or not np.array_equal(
            ours.caption_texts, theirs.caption_texts
        ):
            raise UserError(
                f"The evaluator {name!r} of {folders[0]} and of {folders[1]} uses different "
                f"records of the split {chosen!r}; only runs on the same images and captions can "
                "be averaged."
            )


def identity(folders: Sequence[str], configs: Sequence[ml_collections.ConfigDict]) -> ModelIdentity:
    """Returns the model that produced the results of an ensemble; see `evaluate_runs`."""
    return ModelIdentity.of_several(
        [
            ModelIdentity.of_config(config, training_hashes(folder))
            for folder, config in zip(folders, configs, strict=True)
        ]
    )
