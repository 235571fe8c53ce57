"""Judges embeddings exactly: retrieval ranks by counting, bootstrap correlations, boards."""

from xmodal.evals.evaluation import Evaluation
from xmodal.evals.evaluator import EvalSet, Evaluator
from xmodal.evals.from_files import evaluate
from xmodal.evals.runner import evaluate_boards

__all__ = ["EvalSet", "Evaluation", "Evaluator", "evaluate", "evaluate_boards"]
