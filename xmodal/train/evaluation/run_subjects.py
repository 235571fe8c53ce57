"""Opens checkpoints of runs, and several runs as one model, for their evaluation."""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import cast

import ml_collections
import numpy as np
from absl import logging

from xmodal import data
from xmodal.core import mesh as mesh_lib
from xmodal.core.config import lookup
from xmodal.core.errors import UserError
from xmodal.core.result_files import FINAL
from xmodal.data.text.text_counts import count_texts
from xmodal.evals import Evaluation
from xmodal.evals.evaluators import Split
from xmodal.evals.model_adapter import EncoderAdapter, Ensemble
from xmodal.evals.scores.embed import Items
from xmodal.train.evaluation.model_identity import ModelIdentity
from xmodal.train.evaluation.run_evaluation import RunEvaluation
from xmodal.train.evaluation.subjects import Opened, evaluate_subjects
from xmodal.train.evaluation.suite import EvalSuite, Subject
from xmodal.train.folder import checkpoints, run_folder
from xmodal.train.resolve import build_run


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
    parts, records = evaluation.parts, run_folder.load_records(run_dir).get("train", {})
    settings = parts.settings
    how = [run_folder.explain_best_step(run_dir)] if is_best else []

    def describe(items: Items) -> list[str]:
        given = settings.data, settings.train_split, items
        return [*filter(None, how), *describe_captions(*given), *describe_sentences(*given)]

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
            name = f"{settings.name} step {step}"
            yield Subject(name, evaluation.adapter(*weights), describe, records, step)

    # The stored config, with the learned words; the config in use may not name them yet.
    identity = ModelIdentity.of_config(run_folder.load_run(run_dir), records)
    return Opened(
        evaluation.suite, subjects(), identity, settings.tensorboard, parts.config.to_dict()
    )


def describe_captions(settings: data.DataConfig, train_split: str, split: Items) -> list[str]:
    """Returns the prompt of the captions, and how many are cut, empty or without a known word."""
    if settings.text is None or "text" not in split.modalities:
        return []
    prompt = settings.text.prompt
    texts = [(prompt or "{}").replace("{}", text) for text in split.caption_texts]
    counts = count_texts(data.load_tokenizer(settings, train_split), texts)
    notes = [f"Captions are read as {prompt!r}."] if prompt else []
    return [*notes, *filter(None, [counts.describe("captions", "config.data.text.max_length")])]


def describe_sentences(settings: data.DataConfig, train_split: str, split: Items) -> list[str]:
    """Returns how many sentences of each set of pairs are training captions; [] without sets."""
    if "set" not in split.labels or settings.text is None:
        return []
    try:
        counts = data.count_seen(settings, train_split, cast(data.EvalSplit, split))
    except data.DatasetMissingError:
        return ["Whether the sentences occur among the training captions is not known."]
    named = [f"{name} {n.seen:,} of {n.sentences:,}" for name, n in counts.items() if n.seen]
    return [f"Different sentences that are training captions: {', '.join(named) or 'none'}."]


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
    mesh, members = mesh_lib.make_mesh(), {}
    for folder, config in zip(folders, configs, strict=True):
        chosen = run_folder.resolve_step(folder, step)
        evaluation = RunEvaluation(build_run(config, mesh), names=names, trains=False)
        members[folder] = open_run(evaluation, folder, [chosen])
    return open_ensemble(members, split)


def open_ensemble(members: Mapping[str, Opened], split: str | None) -> Opened:
    """Returns several models as one, whose scores are means, with the evaluators of the first.

    Args:
      members: folder -> its only model.
      split: `Request.split`.

    Raises:
      UserError: a model lacks an evaluator, or the models read different items.
    """
    (name, first), *_ = members.items()

    def subjects() -> Iterator[Subject]:
        own = [
            _own_items(first.suite, each.suite, split, (name, folder))
            for folder, each in members.items()
        ]
        models = [model for each in members.values() for model in each.subjects]
        labels = [model.name for model in models]
        note = f"Scores are means of those of {' and '.join(labels)}."
        adapters = [cast(EncoderAdapter, model.adapter) for model in models]
        adapter = Ensemble([*zip(adapters, own, strict=True)])
        yield Subject(" + ".join(labels), adapter, lambda items: [note])

    identity = ModelIdentity.of_several([each.identity for each in members.values()])
    return Opened(first.suite, subjects(), identity, first.tensorboard)


def _own_items(
    first: EvalSuite, other: EvalSuite, split: str | None, folders: tuple[str, str]
) -> Callable[[Items], Items]:
    """Returns the function from the first model's items to another's, read by its own tokenizer.

    Raises:
      UserError: an evaluator uses different items for the models; ids may coincide.
    """
    own = {}
    for name, options in first.options.items():
        lookup(f"config.evals of {folders[1]}", name, other.options)
        chosen = first.split_of(name, split)
        used = [cast(Split, suite.items(name, chosen)) for suite in (first, other)]
        for each in (chosen, *options.splits_read):
            ours, theirs = used if each == chosen else [split.beside(each) for split in used]
            common = ours.hashes.keys() & theirs.hashes.keys()
            if any(ours.hashes[key] != theirs.hashes[key] for key in common) or not np.array_equal(
                ours.caption_texts, theirs.caption_texts
            ):
                raise UserError(
                    f"The evaluator {name!r} of {folders[0]} and of {folders[1]} uses different "
                    f"records of the split {each!r}; only models on the same images and captions "
                    "can be averaged."
                )
            own[id(ours)] = cast(Items, theirs)
    return lambda items: own[id(items)]
