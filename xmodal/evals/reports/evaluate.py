"""Evaluates a model by an evaluator, with a page of examples."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, cast

from xmodal.evals.evaluators.benchmarks import BenchmarksEvaluator
from xmodal.evals.evaluators.evaluator import Evaluator
from xmodal.evals.labels.definitions import DIRECTIONS
from xmodal.evals.labels.positives import Ragged
from xmodal.evals.reports.confusions import picture_confusions
from xmodal.evals.reports.evaluation import Drawn, Evaluation, Points
from xmodal.evals.reports.examples import make_example_page, ranked_directions
from xmodal.evals.reports.results import Result
from xmodal.evals.scores.score_rows import draw_similarities
from xmodal.evals.scores.sources import Embeddings, ModelAdapter, RankedLists, ScoreMatrix

EXAMPLES = 3
"""Queries of every rule on the page of examples, unless a number is given."""
_PAIRS = 500  # Whose scores are drawn: few, since every query is scored with all items.


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
    curves: Mapping[str, Points] | None = None,
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
      curves: see `Evaluation`.
    """
    results = evaluator.run(adapter)
    source: Any = evaluator.source(adapter)
    similarity = "rankings" if isinstance(source, RankedLists) else "scores"
    if isinstance(source, Embeddings):
        # A model without embeddings has a similarity in name only.
        own = source.similarity if source.modalities else "none"
        similarity = evaluator.options.ranks_by or own
    page, similarities = None, dict[str, Drawn]()
    # Files of candidates and lists lack the scores of most items.
    has_scores = isinstance(source, Embeddings | ScoreMatrix)
    if has_scores and isinstance(evaluator, BenchmarksEvaluator):
        similarities = draw_scores(evaluator, source, results)
        if examples:
            page = make_example_page(evaluator, source, results, examples, name, other)
    provenance, options = evaluator.provenance, evaluator.options
    notes = [*provenance.notes, *notes]
    warnings = [*provenance.warnings, *evaluator.warnings()]
    return Evaluation(
        name=name, results=results, similarity=similarity,
        provenance=dataclasses.replace(provenance, notes=notes, warnings=warnings),
        samples=options.bootstrap_samples, seed=options.seed, evaluator=evaluator_name,
        trained_on=trained_on or {}, page=page, charts=evaluator.charts(adapter),
        similarities=similarities, curves=curves or {},
        groups=picture_confusions(evaluator.split, results[0]),
    )  # fmt: skip


def draw_scores(
    evaluator: BenchmarksEvaluator, source: Embeddings | ScoreMatrix, results: Sequence[Result]
) -> dict[str, Drawn]:
    """Returns benchmark/direction -> scores of positives and of others, see `draw_similarities`.

    One direction of every two modalities, on its main benchmark; see `ranked_directions`.
    """
    rankings, found = evaluator.open_rankings(source), dict[str, Drawn]()
    benchmarks = {each.name: each.directions for each in evaluator.benchmarks}
    for direction, name, _ in ranked_directions(evaluator.benchmarks, results):
        if f"{name}/{direction[::-1]}" not in found:
            labels = cast(Ragged, benchmarks[name][direction].positives)
            alone = len({*DIRECTIONS[direction]}) == 1
            drawn = draw_similarities(rankings(direction), labels, _PAIRS, exclude_self=alone)
            found[f"{name}/{direction}"] = drawn
    return found
