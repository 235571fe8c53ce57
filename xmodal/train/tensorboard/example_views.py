"""Pictures and histograms of an evaluation in training, for the same queries at every step."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import jax
import numpy as np

from xmodal.core.config import read, setting
from xmodal.core.event_writer import EventWriter
from xmodal.evals.evaluators import Evaluator
from xmodal.evals.evaluators.benchmarks import BenchmarksEvaluator
from xmodal.evals.labels.definitions import DIRECTIONS
from xmodal.evals.labels.positives import Ragged
from xmodal.evals.reports.example_page import make_groups
from xmodal.evals.reports.example_rules import pick_fixed
from xmodal.evals.reports.results import BenchmarkResult, Result
from xmodal.evals.scores.embed import Items
from xmodal.evals.scores.score_rows import draw_similarities
from xmodal.evals.scores.sources import Embeddings
from xmodal.train.tensorboard.drawing import draw_section
from xmodal.train.tensorboard.projector import write_projector


@dataclasses.dataclass(frozen=True)
class TensorBoardConfig:
    """`config.tensorboard`: pictures and histograms of evaluations, for TensorBoard.

    Attributes:
      queries: number of queries per direction of every benchmark, drawn with the items they find.
      pairs: number of positive and of other pairs whose similarities are shown in histograms.
      projector: number of images in the projector, with a caption each, after the last evaluation.
    """

    queries: int = setting(3, at_least=0)
    pairs: int = setting(5000, at_least=0)
    projector: int = setting(500, at_least=0)


def read_config(config: Mapping[str, Any]) -> TensorBoardConfig:
    """Returns `config.tensorboard`, or its defaults for a config without that section."""
    section = dict(config.get("tensorboard") or {})
    return read(TensorBoardConfig, "config.tensorboard", section)


# Takes an evaluator's name, the evaluator, embeddings, its results on them, and the items.
View = Callable[[str, Evaluator, Embeddings, Sequence[Result], Items], None]


class Views:
    """Pictures and histograms of the evaluations of one step, see `View`.

    Every process has to call this, because scores are computed on all devices.
    """

    def __init__(self, writer: EventWriter, config: TensorBoardConfig, step: int) -> None:
        """Opens the views of a step."""
        self.writer, self._config, self._step = writer, config, step
        self._shown: dict[str, tuple[Embeddings, Items]] = {}

    def __call__(
        self,
        name: str,
        evaluator: Evaluator,
        source: Embeddings,
        results: Sequence[Result],
        items: Items,
    ) -> None:
        """Writes `NAME/DIRECTION/queries/...` and `.../similarity/...` of benchmarks."""
        if not isinstance(evaluator, BenchmarksEvaluator):
            return
        self._shown[name] = source, items
        of_benchmarks = [each for each in results if isinstance(each, BenchmarkResult)]
        rankings = functools.cache(evaluator.open_rankings(source))
        picks = pick_fixed(evaluator.benchmarks, of_benchmarks, self._config.queries)
        benchmarks = {benchmark.name: benchmark for benchmark in evaluator.benchmarks}
        histograms: dict[str, np.ndarray] = {}
        for pick in picks if self._config.pairs else ():
            positives = cast(
                Ragged, benchmarks[pick.benchmark].directions[pick.direction].positives
            )
            query, gallery = DIRECTIONS[pick.direction]
            scores, count, is_same = rankings(pick.direction), self._config.pairs, query == gallery
            drawn = draw_similarities(scores, positives, count, exclude_self=is_same)
            tags = (f"{name}/{pick.direction}/similarity/{kind}" for kind in ("positive", "other"))
            histograms |= zip(tags, drawn, strict=True)
        groups = make_groups(evaluator, rankings, picks, items)
        if jax.process_index() > 0:
            return
        self.writer.write_histograms(self._step, histograms)
        for pick, group in zip(picks, groups, strict=True):
            pictures = {
                f"{name}/{pick.direction}/queries/{number}": draw_section(section)
                for number, section in enumerate(group.sections, 1)
            }
            self.writer.write_pictures(self._step, pictures)

    def write_projector(self, folder: str) -> None:
        """Writes the received embeddings for the projector, see `projector`."""
        if self._shown and self._config.projector and jax.process_index() == 0:
            write_projector(folder, self._shown, self._config.projector)
