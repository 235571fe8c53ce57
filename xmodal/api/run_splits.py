"""Reads the items that a run or a file is evaluated on."""

from typing import Any, NamedTuple

import ml_collections
from etils import epath

from xmodal.core.config import lookup
from xmodal.core.mesh import make_mesh
from xmodal.evals import Embeddings
from xmodal.train.evaluation.run_evaluation import RunEvaluation
from xmodal.train.evaluation.run_subjects import open_run
from xmodal.train.evaluation.subjects import open_file
from xmodal.train.folder import run_folder
from xmodal.train.resolve import build_run


class EvaluatedSplit(NamedTuple):
    """A split as an evaluator uses it.

    Attributes:
      model_name: name of the model.
      evaluator_name: name of the evaluator in `config.evals`.
      evaluator: the evaluator, of the class of its type.
      embeddings: the model's embeddings of the split.
    """

    model_name: str
    evaluator_name: str
    evaluator: Any
    embeddings: Embeddings


def open_evaluated_split(
    source: str,
    config: ml_collections.ConfigDict | None,
    evaluator: str,
    split: str | None,
    step: int | str,
    similarity: str | None,
    *,
    kind: str = "benchmarks",
) -> EvaluatedSplit:
    """Embeds a split with a run, or reads its embeddings; see `xmodal.inspect` for arguments.

    `kind`: type of the evaluator.
    """
    is_run = epath.Path(source).is_dir()
    config = run_folder.load_run(source) if is_run else config
    sections = {} if config is None else config.evals
    names = [name for name, section in sections.items() if section.type == kind]
    if evaluator:
        lookup("evaluator", evaluator, dict.fromkeys(names))
    name = evaluator or names[0]
    if is_run:
        evaluation = RunEvaluation(build_run(config, make_mesh()), names=[name], trains=False)
        opened = open_run(evaluation, source, [run_folder.resolve_step(source, str(step))])
    else:
        opened = open_file(source, config, names=[name], similarity=similarity)
    (subject,), suite = opened.subjects, opened.suite
    found = suite.evaluator(name, suite.split_of(name, split))
    embeddings = found.embeddings(subject.adapter)
    return EvaluatedSplit(subject.name, name, found, embeddings)
