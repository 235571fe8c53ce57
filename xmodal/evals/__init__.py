"""Judges embeddings exactly: retrieval ranks by counting, bootstrap correlations, boards."""

from xmodal.evals.evaluator import EvalSet, Evaluator
from xmodal.evals.runner import evaluate_boards

__all__ = ["EvalSet", "Evaluator", "evaluate_boards"]
