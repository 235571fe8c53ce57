"""Evaluates the checkpoints of a run one by one and writes the results."""

import contextlib
import functools
import os
from collections.abc import Callable, Iterable

from absl import logging

from xmodal.evals import Evaluation
from xmodal.runs.evaluation.evaluation_files import event_writer, write_all
from xmodal.runs.evaluation.model_identity import ModelIdentity
from xmodal.runs.evaluation.run_evaluation import RunEvaluation
from xmodal.runs.evaluation.sentence_notes import describe_sentences
from xmodal.runs.evaluation.suite import FINAL_SPLITS, Request
from xmodal.runs.folder import checkpoints, run_folder
from xmodal.runs.folder.finished import FINAL
from xmodal.runs.folder.run_records import training_hashes
from xmodal.runs.tensorboard.example_views import Views
from xmodal.runs.tensorboard.writer import make_writer


def evaluate_best(evaluation: RunEvaluation, run_dir: str) -> list[Evaluation]:
    """Evaluates the best checkpoint of a run on the final splits into `RUN_DIR/test`."""
    output = os.path.join(run_dir, FINAL)
    return evaluate_checkpoints(evaluation, run_dir, [run_folder.best_step(run_dir)], output)


def evaluate_checkpoints(
    evaluation: RunEvaluation,
    run_dir: str,
    steps: Iterable[int],
    output: str,
    request: Request = FINAL_SPLITS,
    *,
    keep_others: bool = False,
    check_lock: Callable[[], None] | None = None,
) -> list[Evaluation]:
    """Evaluates checkpoints one by one; prints and writes all results.

    Args:
      evaluation: the evaluation of the run.
      run_dir: folder of the run.
      steps: some of its checkpoints.
      output: folder for the results, see `results.write_all`.
      request: what to evaluate and to save.
      keep_others: see `results.write_all`.
      check_lock: for a follower, whose steps continue those of an earlier call: raises if another
        process has taken over `output`.

    Returns:
      One evaluation per evaluator, of the last checkpoint.

    Raises:
      UserError: the step or split does not exist, models differ, or a folder is not writable.
    """
    parts = evaluation.parts
    others = evaluation.suite.load_others(request)
    records = training_hashes(run_dir)
    # The stored config, with the learned words; the config in use may not name them yet.
    model = ModelIdentity.of_config(run_folder.load_run(run_dir), records)
    evaluations: list[Evaluation] = []
    opened = event_writer(output, parts.config.to_dict())
    if check_lock:  # Its curves continue, and the run that it follows has a row of settings.
        opened = contextlib.closing(make_writer(output))
    with opened as writer:
        for step in steps:
            try:
                params, model_state = checkpoints.restore_model(
                    run_dir, step, parts.shapes, parts.mesh
                )
            except (FileNotFoundError, ValueError):
                if not check_lock or step in run_folder.steps(run_dir):
                    raise
                # A run keeps only its last few checkpoints.
                logging.warning("Checkpoint %d was replaced while it was being read.", step)
                continue
            views = Views(writer, parts.settings.tensorboard, step)
            evaluations = evaluation.evaluate(
                params,
                model_state,
                name=f"{parts.config.name} step {step}",
                request=request,
                notes=functools.partial(describe_sentences, parts.settings),
                trained_on=records,
                others=others,
                view=views,
            )
            if check_lock:
                check_lock()
            write_all(evaluations, output, model, others, views, step, keep_others=keep_others)
    return evaluations
