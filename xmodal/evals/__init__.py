"""Judges embeddings exactly: retrieval ranks by counting, bootstrap correlations, boards."""

from xmodal.evals.runner import EvalSet, Evaluator, compute_metrics

__all__ = ["EvalSet", "Evaluator", "compute_metrics"]
