"""A run of a tiny text-only model with checkpoints at steps 0, 2 and 4, for command tests."""

import dataclasses
import json
import pathlib

import numpy as np

from configs import cxc
from xmodal import data, eval_main
from xmodal.apps import eval_arguments
from xmodal.core import mesh as mesh_lib
from xmodal.train import start
from xmodal.train.evaluation.run_evaluation import RunEvaluation
from xmodal.train.evaluation.subjects import open_file
from xmodal.train.evaluation.suite import FINAL_SPLITS, Subject
from xmodal.train.folder import checkpoints, run_folder
from xmodal.train.resolve import build_run

BEST = "shapes/mean_recall@10"
TOTAL_STEPS = 4


def make_config(data_dir):
    config = cxc.quick(cxc.experiment("tiny"))
    config.total_steps, config.batch_size = TOTAL_STEPS, 8
    config.model.image = config.data.image = config.l2 = None
    # Traced and compiled in a fraction of the time of a transformer.
    config.model.text.encoder = {"name": "words", "vocab_size": 400, "width": 16}
    config.model.text.head, config.model.text.projection.width = {"name": "mean"}, 16
    config.freeze = []
    config.tasks = {"t2t": cxc.text_text()}
    config.data.data_dir = data_dir
    config.data.captions_per_image = 2
    config.data.text = {"vocabulary_size": 300, "max_length": 16}
    config.evals.shapes.every = 2
    config.evals.words = {"type": "benchmarks", "every": 4, "similarity": {"name": "cosine"}}
    config.evals.words.benchmarks = ["shapes_own"]
    return config


def save_run(config, folder):
    """Writes the run without training, so all checkpoints hold the same model; 2 is the best."""
    folder = str(folder)
    parts = build_run(config, mesh_lib.make_mesh())
    state = start.starting_state(parts, folder)
    run_folder.save_config(folder, parts.config, data.load_vocabulary(parts.settings.data))
    saver = checkpoints.Checkpoints(
        folder, parts.settings.checkpoint, parts.settings.best_checkpoint
    )
    evaluation = RunEvaluation(parts)
    assert [step for step in range(5) if evaluation.due(step)] == [0, 2, 4]
    assert "words/shapes_own/t2t/recall@1" not in evaluation.run_state(2, state)
    held_out = evaluation.run_state(TOTAL_STEPS, state)
    for step, score in [(0, 30.0), (2, 50.0), (4, 40.0)]:
        metrics = held_out | {BEST: score}
        saver.save(dataclasses.replace(state, step=np.int32(step)), metrics)
    saver.close()
    return pathlib.Path(folder)


def evaluate(**values):
    """Runs `python -m xmodal.eval_main` with these flags."""
    eval_main.main(eval_arguments.parse(as_words(values), None)[0])


def as_words(values):
    """Flags of the command line: lists by commas, true ones without a value."""
    words = {name: ",".join(x) if isinstance(x, list) else x for name, x in values.items()}
    given = {name: x for name, x in words.items() if x not in (None, False)}
    return [f"--{name}" if x is True else f"--{name}={x}" for name, x in given.items()]


def evaluate_weights(evaluation, params, model_state, *, name, **options):
    """Evaluates weights of a run's model; returns one evaluation per evaluator."""
    subject = Subject(name, evaluation.adapter(params, model_state))
    return evaluation.suite.evaluate(subject, **options)


def evaluate_file(path, config, request=FINAL_SPLITS, **options):
    """Evaluates a file of embeddings on the datasets of a config; returns its evaluations."""
    suite, (subject,), *_ = open_file(path, config, **options)
    others = suite.load_others(request)
    return suite.evaluate(subject, request, others=others)


def read(path):
    return json.loads(path.read_text())
