"""Tests whether a model is less certain about items with more matches on the other modality."""

import dataclasses
from collections.abc import Collection

import numpy as np

from xmodal.core.errors import UserError
from xmodal.evals.evaluators.benchmarks import labels_of_split
from xmodal.evals.evaluators.evaluator import Evaluator, Options
from xmodal.evals.evaluators.runner import correlate
from xmodal.evals.labels.definitions import DIRECTIONS
from xmodal.evals.labels.make import make_benchmarks
from xmodal.evals.labels.positives import Ragged
from xmodal.evals.labels.types import Benchmark, DirectionLabels, GradedPairs
from xmodal.evals.reports.results import Result
from xmodal.evals.scores.sources import ModelAdapter


@dataclasses.dataclass(frozen=True)
class AmbiguityOptions(Options):
    """Options of predicted uncertainty.

    Attributes:
      benchmark: benchmark whose positives are counted.
    """

    benchmark: str = ""


class AmbiguityEvaluator(Evaluator):
    """Spearman correlation of queries' uncertainty and number of positives, see `Evaluator`.

    Each direction of a benchmark, such as `i2t`, has its own correlation over the queries with a
    positive. It is computed as for ratings: every query is paired with itself and "rated" by its
    count.
    """

    options: AmbiguityOptions

    def _read(self, modalities: Collection[str]) -> None:
        benchmarks = (self.options.benchmark,)
        self._labels = labels_of_split(self.split, benchmarks)
        (benchmark,) = make_benchmarks(self._labels, benchmarks)
        graded = {
            name: _grade(DIRECTIONS[name][0], direction)
            for name, direction in benchmark.directions.items()
            if DIRECTIONS[name][0] in modalities
        }
        definition = (
            "Predicted uncertainty of a query (its mean log sigma, else the spread of its K "
            f"embeddings) and the number of its positives. {benchmark.definition}"
        )
        name, label_hash = self.options.type, benchmark.label_hash
        self.benchmarks = [Benchmark(name, definition, {}, graded, label_hash)]

    def run(self, adapter: ModelAdapter) -> list[Result]:
        """See `Evaluator`."""
        source = self._ordered(adapter)
        options, (benchmark,), found = self.options, self.benchmarks, {}
        for name, pairs in benchmark.graded.items():
            modality = pairs.modalities[0]
            if (own := source.by_modality.get(modality)) is not None:
                values = compute_uncertainty(source.place, own, source.log_sigma.get(modality))
                how = self._labels, options.bootstrap_samples, options.seed
                found[name] = correlate(values[pairs.left], pairs, *how)
        return [Result(benchmark.name, benchmark.definition, benchmark.label_hash, {}, found)]


def compute_uncertainty(
    place: str, vectors: np.ndarray, log_sigma: np.ndarray | None
) -> np.ndarray:
    """Returns the uncertainty of items, float [N].

    Args:
      place: names the model in messages.
      vectors: [N, D], or [N, K, D] with K embeddings of every item.
      log_sigma: [N, D], whose mean is the uncertainty; if None, the uncertainty is the
        root mean squared distance of the K embeddings from their mean.
    """
    if log_sigma is not None:
        return log_sigma.mean(axis=1)
    if vectors.ndim == 2 or vectors.shape[1] == 1:
        raise UserError(
            f"{place} has one embedding per item and no log sigma, so it predicts no "
            "uncertainty; the evaluator 'ambiguity' needs the head 'gaussian', or 'pie' with "
            "several embeddings."
        )
    return np.sqrt(np.square(vectors - vectors.mean(axis=1, keepdims=True)).sum(2).mean(1))


def _grade(modality: str, direction: DirectionLabels) -> GradedPairs:
    """Every query paired with itself, rated by the number of its positives."""
    counts = np.mean([relation.lengths for relation in direction.relations], axis=0)
    if direction.unreachable is not None:
        counts = counts + direction.unreachable
    queries = np.flatnonzero(counts)
    rows = np.arange(len(queries), dtype=np.int32)
    own = Ragged(np.arange(len(queries) + 1), rows)
    return GradedPairs(
        (modality, modality), queries, queries, counts[queries].astype(np.float32), own
    )
