"""Inspects a model: queries and the items they find, with labels and human ratings."""

import functools
import os
from collections.abc import Sequence

import ml_collections
import numpy as np

from xmodal.api.run_splits import EvaluatedSplit, open_evaluated_split
from xmodal.apps.analysis.ratings import rating_plots
from xmodal.core.config import lookup
from xmodal.core.page import Page
from xmodal.evals import Evaluation, evaluate_source
from xmodal.evals.evaluators.benchmarks import BenchmarksEvaluator
from xmodal.evals.labels.definitions import DIRECTIONS
from xmodal.evals.labels.ids import Positions
from xmodal.evals.labels.types import GradedPairs
from xmodal.evals.reports.examples import Pick, make_groups, ranked_directions, space_evenly
from xmodal.evals.reports.results import DirectionResult
from xmodal.evals.scores.sources import order_embeddings


def inspect(
    source: str | os.PathLike,
    *,
    config: ml_collections.ConfigDict | None = None,
    evaluator: str = "",
    split: str | None = None,
    step: int | str = "best",
    similarity: str | None = None,
) -> "Inspection":
    """Embeds a split with a run, or reads its embeddings from a file, for inspection.

        inspection = xmodal.inspect("runs/quickstart")
        inspection.neighbors("i2t")

    Args:
      source: folder of a run, or an npz file that `eval_main --save_embeddings` wrote.
      config: config with the dataset of a file, such as a run's config; a run has its own.
      evaluator: name in `config.evals`, of type `benchmarks`; "" for the first one.
      split: split of the dataset; None for the evaluator's final split.
      step: checkpoint of a run: a number, `best` or `latest`.
      similarity: similarity for a file that does not name one.
    """
    return Inspection(
        open_evaluated_split(os.fspath(source), config, evaluator, split, step, similarity)
    )


class Inspection:
    """Embeddings of a split with its labels; made by `xmodal.inspect`.

    Attributes:
      name: name of the model.
      embeddings: embeddings in the order of the labels.
    """

    def __init__(self, found: EvaluatedSplit) -> None:
        """Puts the embeddings into the order of the labels."""
        self.name, self._found = found.model_name, found
        self._evaluator: BenchmarksEvaluator = found.evaluator
        self.embeddings = order_embeddings(found.embeddings, self._evaluator.labels)
        self._rankings = functools.cache(self._evaluator.open_rankings(self.embeddings))

    @functools.cached_property
    def evaluation(self) -> Evaluation:
        """Numbers, report and page of examples; its `tagged` has the tags of `metrics.json`."""
        return evaluate_source(
            self._evaluator, self.embeddings, name=self.name, examples=5,
            evaluator_name=self._found.evaluator_name,
        )  # fmt: skip

    @property
    def directions(self) -> list[str]:
        """The available directions, of i2t, t2i, t2t and i2i."""
        return list(self._benchmarks)

    def neighbors(self, direction: str, queries: int | Sequence[int] = 3) -> Page:
        """Returns a page of queries, the items they find first, and their other positives.

        Every item has its rank, its score, and human ratings of the pair.

        Args:
          direction: "i2t", "t2i", "t2t" or "i2i".
          queries: ids of images or captions, or the number of evenly spaced queries.
        """
        name, result = lookup("direction", direction, self._benchmarks)
        ids = result.query_ids
        if isinstance(queries, int | np.integer):
            rows = space_evenly(max(1, int(queries)), len(ids))
        else:
            rows = Positions("query", ids)(np.asarray(queries))
        assert result.rank is not None
        pick = Pick("neighbors", direction, name, ids[rows], result.rank[rows])
        groups = make_groups(self._evaluator, self._rankings, [pick])
        return Page(f"{self.name}: {pick.title}", groups)

    @property
    def ratings(self) -> list[str]:
        """Human ratings that the model can be compared with, such as "shapes/sts"."""
        return list(self._rated)

    def draw_ratings(self) -> bytes:
        """Returns a PNG of similarity against human rating, with the line of best fit."""
        found = {
            name: (pairs.scores, self._rankings(direction).pairs(pairs.left, pairs.right))
            for name, (direction, pairs) in self._rated.items()
        }
        return rating_plots.draw_similarities(found, title=self.name)

    @property
    def _rated(self) -> dict[str, tuple[str, GradedPairs]]:
        """Name of ratings -> direction and pairs."""
        directions = {DIRECTIONS[each]: each for each in self.directions}
        return {
            f"{benchmark.name}/{name}": (directions[pairs.modalities], pairs)
            for benchmark in self._evaluator.benchmarks
            for name, pairs in benchmark.graded.items()
            if pairs.modalities in directions
        }

    @functools.cached_property
    def _benchmarks(self) -> dict[str, tuple[str, DirectionResult]]:
        """Direction -> the benchmark with the widest labels, and its result."""
        found = ranked_directions(self._evaluator.benchmarks, self.evaluation.benchmarks)
        return {direction: (name, result) for direction, name, result in found}
