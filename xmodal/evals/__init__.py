"""Judges models exactly: boards of retrieval and ratings, sentence pairs, pools, relations."""

from xmodal.evals.embed import Embedder
from xmodal.evals.evaluation import Evaluation, judge
from xmodal.evals.evaluators import EVALUATORS, make_evaluator, read_options
from xmodal.evals.from_files import evaluate
from xmodal.evals.inputs.arrays import load_embeddings, save_embeddings
from xmodal.evals.inputs.sources import Embeddings

__all__ = [
    "EVALUATORS",
    "Embedder",
    "Embeddings",
    "Evaluation",
    "evaluate",
    "judge",
    "load_embeddings",
    "make_evaluator",
    "read_options",
    "save_embeddings",
]
