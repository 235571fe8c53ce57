"""Evaluates a model by an evaluator, with a page of examples on request."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from xmodal.evals.evaluators.benchmarks import BenchmarksEvaluator
from xmodal.evals.evaluators.evaluator import Evaluator
from xmodal.evals.reports.evaluation import Evaluation
from xmodal.evals.reports.examples import make_example_page
from xmodal.evals.scores.sources import Embeddings, ModelAdapter, RankedLists, ScoreMatrix


def evaluate_source(
    evaluator: Evaluator,
    adapter: ModelAdapter,
    *,
    name: str,
    evaluator_name: str = "",
    notes: Sequence[str] = (),
    trained_on: Mapping[str, str] | None = None,
    examples: int = 0,
    other: Evaluation | None = None,
) -> Evaluation:
    """Returns the evaluation of a model by an evaluator; see `Evaluation` for details.

    Args:
      evaluator: the evaluator.
      adapter: the model, or a file of it.
      name: name of the model.
      evaluator_name: its name in `config.evals`.
      notes: notes on the model; they follow those on the labels.
      trained_on: see `Evaluation`.
      examples: number of queries per rule on the page of examples of benchmarks; 0 for no page.
      other: results to compare with, for the page.
    """
    results = evaluator.run(adapter)
    source: Any = evaluator.source(adapter)
    similarity = "rankings" if isinstance(source, RankedLists) else "scores"
    if isinstance(source, Embeddings):
        # A model without embeddings has a similarity in name only.
        own = source.similarity if source.modalities else "none"
        similarity = evaluator.options.ranks_by or own
    page = None
    # Files of candidates and lists lack the scores of most items.
    has_scores = isinstance(source, Embeddings | ScoreMatrix)
    if examples and has_scores and isinstance(evaluator, BenchmarksEvaluator):
        page = make_example_page(evaluator, source, results, examples, name, other)
    provenance, options = evaluator.provenance, evaluator.options
    notes = [*provenance.notes, *notes]
    warnings = [*provenance.warnings, *evaluator.warnings()]
    return Evaluation(
        name=name, results=results, similarity=similarity,
        provenance=dataclasses.replace(provenance, notes=notes, warnings=warnings),
        samples=options.bootstrap_samples, seed=options.seed, evaluator=evaluator_name,
        trained_on=trained_on or {}, page=page, figures=evaluator.figures(adapter),
    )  # fmt: skip
