"""Average precision of predicted relations between an image and its caption."""

import dataclasses
import itertools
from collections.abc import Collection
from typing import ClassVar

import numpy as np

from xmodal.core.config import setting
from xmodal.evals.evaluators.evaluator import Evaluator, Options
from xmodal.evals.labels.ids import Positions
from xmodal.evals.reports.metrics import compute_average_precision
from xmodal.evals.scores.rerank import predictions_of
from xmodal.evals.scores.sources import Embeddings

_METRICS = ("average_precision", "base_rate")


@dataclasses.dataclass(frozen=True)
class RelationsOptions(Options):
    """Options of predicted relations.

    Attributes:
      task: task of the run whose predictions are evaluated.
      labels: label column, 0/1 [N, C].
      select: positions of the C relations among those of the dataset; empty for all.
    """

    task: str = ""
    labels: str = "relations"
    select: tuple[int, ...] = setting((), at_least=0)

    needs: ClassVar[frozenset[str]] = frozenset({"text"})


class RelationsEvaluator(Evaluator):
    """Average precision per relation over images and their own captions, see `Evaluator`.

    The base rate of a relation, the share of pairs that have it, is the average precision of
    chance. The mean is over the relations that occur.
    """

    options: RelationsOptions

    def _read(self, modalities: Collection[str]) -> None:
        split, options = self.split, self.options
        labels = self._column(options.labels)
        labels = labels.reshape(len(labels), -1)
        known = split.label_names.get(options.labels) or range(labels.shape[1])
        chosen = list(options.select) or list(range(labels.shape[1]))
        labels = labels[:, chosen]
        self._names = [str(known[position]) for position in chosen]
        self._images = Positions("image", split.image_ids)(split.caption_image_ids)
        self._labels = labels[self._images] > 0
        self._label_hash.add("relations", np.asarray(split.caption_ids), *self._labels.T)
        self._occur = self._labels.any(axis=0)
        self._definition = (
            "Average precision of every relation over images and their own captions, and its base "
            f"rate: the share of the {len(self._labels):,} pairs that have it. The mean is over "
            "the relations that occur."
        )

    def tags(self, modalities: Collection[str]) -> list[str]:
        """See `Evaluator`."""
        return [f"{name}/{metric}" for name in (*self._names, "mean") for metric in _METRICS]

    def _compute(self, source: Embeddings) -> dict[str, float]:
        predicted = predictions_of(source, self.options.task).pairs(
            self._images, np.arange(len(self._images))
        )
        values = [
            (100.0 * compute_average_precision(scores, labels), 100.0 * float(np.mean(labels)))
            for scores, labels in zip(predicted.T, self._labels.T, strict=True)
        ]
        mean = np.mean(np.array(values)[self._occur], axis=0).tolist()
        return dict(zip(self.tags(()), itertools.chain(*values, mean), strict=True))
