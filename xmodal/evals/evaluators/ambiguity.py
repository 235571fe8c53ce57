"""Tests whether a model is less certain about items with more matches on the other modality."""

import dataclasses
from collections.abc import Collection

import numpy as np

from xmodal.core.charts import Chart, Lines
from xmodal.core.errors import UserError
from xmodal.evals.evaluators.benchmarks import labels_of_split
from xmodal.evals.evaluators.evaluator import Evaluator, Options
from xmodal.evals.evaluators.runner import correlate
from xmodal.evals.labels.definitions import DIRECTIONS
from xmodal.evals.labels.make import make_benchmarks
from xmodal.evals.labels.positives import Ragged
from xmodal.evals.labels.types import DirectionLabels, GradedPairs
from xmodal.evals.reports.results import Result
from xmodal.evals.scores.sources import ModelAdapter, order_embeddings


@dataclasses.dataclass(frozen=True)
class AmbiguityOptions(Options):
    """Options of predicted uncertainty.

    Attributes:
      benchmark: benchmark whose positives are counted.
      annotations: see `BenchmarksOptions`.
    """

    benchmark: str = ""
    annotations: str = ""


class AmbiguityEvaluator(Evaluator):
    """Spearman correlation of queries' uncertainty and number of positives, see `Evaluator`.

    Each direction of a benchmark, such as `i2t`, has its own correlation over the queries with a
    positive. It is computed as for ratings: every query is paired with itself and "rated" by its
    count.
    """

    options: AmbiguityOptions

    def _read(self, modalities: Collection[str]) -> None:
        benchmarks = (self.options.benchmark,)
        self._labels = labels_of_split(self.split, benchmarks, self.options.annotations)
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
        benchmark = dataclasses.replace(benchmark, definition=definition, graded=graded)
        self.benchmarks = [dataclasses.replace(benchmark, name=self.options.type, directions={})]

    def run(self, adapter: ModelAdapter) -> list[Result]:
        """See `Evaluator`."""
        (benchmark,), how = self.benchmarks, (self.options.bootstrap_samples, self.options.seed)
        found = {
            name: correlate(values, benchmark.graded[name], self._labels, *how)
            for name, values in self._uncertainty(adapter).items()
        }
        named = benchmark.name, benchmark.definition, benchmark.label_hash
        return [Result(*named, {}, found, label_set=benchmark.label_set)]

    def _uncertainty(self, adapter: ModelAdapter) -> dict[str, np.ndarray]:
        """Direction -> uncertainty of its queries with a positive."""
        source, found = order_embeddings(self.embeddings(adapter), self._labels), {}
        for name, pairs in self.benchmarks[0].graded.items():
            modality = pairs.modalities[0]
            if (own := source.by_modality.get(modality)) is not None:
                values = compute_uncertainty(source.place, own, source.log_sigma.get(modality))
                found[name] = values[pairs.left]
        return found

    def charts(self, adapter: ModelAdapter) -> list[Chart]:
        """See `Evaluator`; the mean uncertainty over the number of positives."""
        graded, values = self.benchmarks[0].graded, self._uncertainty(adapter)
        return [chart_means(name, graded[name].scores, x) for name, x in values.items()]


def chart_means(direction: str, counts: np.ndarray, values: np.ndarray) -> Lines:
    """Returns the mean uncertainty over the number of positives, with standard errors.

    Args:
      direction: its name.
      counts: numbers of positives, float [Q].
      values: uncertainties, float [Q].
    """
    numbers, at, sizes = np.unique(counts, return_inverse=True, return_counts=True)
    means = np.bincount(at, values) / sizes
    errors = np.sqrt(np.bincount(at, (values - means[at]) ** 2)) / sizes
    lines = {"mean": means, "less its standard error": means - errors, "plus it": means + errors}
    series = {
        name: list(zip(numbers.tolist(), y.tolist(), strict=True)) for name, y in lines.items()
    }
    return Lines(f"Uncertainty, {direction}", series, "number of positives")


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
