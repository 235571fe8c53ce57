"""Reads the items that a run or a file is evaluated on."""

from typing import NamedTuple

import ml_collections

from xmodal.core import mesh as mesh_lib
from xmodal.core.config import lookup
from xmodal.evals import Embeddings
from xmodal.evals.evaluators import Evaluator
from xmodal.evals.scores.embed import Items
from xmodal.evals.scores.sources import ModelAdapter
from xmodal.train.evaluation.run_evaluation import RunEvaluation
from xmodal.train.evaluation.subjects import open_file
from xmodal.train.evaluation.suite import EvalSuite
from xmodal.train.folder import checkpoints, run_folder
from xmodal.train.resolve import build_run


class EvaluatedSplit(NamedTuple):
    """A split as an evaluator of benchmarks uses it.

    Attributes:
      model_name: name of the model.
      evaluator_name: name of the evaluator in `config.evals`.
      evaluator: the evaluator.
      embeddings: the model's embeddings of the split.
      items: the split.
      step: checkpoint of a run, else None.
    """

    model_name: str
    evaluator_name: str
    evaluator: Evaluator
    embeddings: Embeddings
    items: Items
    step: int | None = None


def embed_run_split(
    run_dir: str, evaluator: str, split: str | None, step: int | str
) -> EvaluatedSplit:
    """Embeds a split with a checkpoint of a run; see `xmodal.inspect` for arguments and errors."""
    config = run_folder.load_run(run_dir)
    name = _choose(config, evaluator)
    chosen = run_folder.resolve_step(run_dir, str(step))
    parts = build_run(config, mesh_lib.make_mesh())
    evaluation = RunEvaluation(parts, names=[name], trains=False)
    weights = checkpoints.restore_model(run_dir, chosen, parts.shapes, parts.mesh)
    model, adapter = f"{config.name} step {chosen}", evaluation.adapter(*weights)
    return _open(model, name, evaluation.suite, adapter, split, chosen)


def read_file_split(
    path: str,
    config: ml_collections.ConfigDict,
    evaluator: str,
    split: str | None,
    similarity: str | None,
) -> EvaluatedSplit:
    """Reads the embeddings of a split; see `xmodal.inspect` for arguments and errors."""
    name = _choose(config, evaluator)
    opened = open_file(path, config, names=[name], similarity=similarity)
    (subject,) = opened.subjects
    return _open(subject.name, name, opened.suite, subject.adapter, split)


def _open(
    model: str, name: str, suite: EvalSuite, adapter: ModelAdapter, split: str | None,
    step: int | None = None,
) -> EvaluatedSplit:  # fmt: skip
    split = suite.split_of(name, split)
    evaluator, items = suite.evaluator(name, split), suite.items(name, split)
    return EvaluatedSplit(model, name, evaluator, evaluator.embeddings(adapter), items, step)


def _choose(config: ml_collections.ConfigDict, name: str) -> str:
    """The evaluator of benchmarks of this name, or the first one."""
    benchmarks = [each for each, section in config.evals.items() if section.type == "benchmarks"]
    if name:
        lookup("evaluator", name, dict.fromkeys(benchmarks))
    return name or benchmarks[0]
