"""Common parts of all evaluators: options, labels, and the facts of a report."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from jax.sharding import Mesh

from xmodal.core.charts import Chart
from xmodal.core.config import setting, suggest
from xmodal.core.errors import UserError
from xmodal.evals.labels.ids import LabelHash
from xmodal.evals.labels.split import Split
from xmodal.evals.labels.types import Benchmark
from xmodal.evals.reports.results import Provenance, Result
from xmodal.evals.reports.summary import list_tags
from xmodal.evals.scores.sources import Embeddings, ModelAdapter, Source, order_embeddings
from xmodal.similarity import make_similarity


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of every type of evaluator.

    Attributes:
      type: a key of `EVALUATORS`.
      data: changes to `config.data`, for a different dataset; None for the run's.
      split: split evaluated during training.
      final_split: split evaluated at the end, and by `xmodal.eval_main`.
      every: steps between evaluations during training; 0 for only the last step.
      batch_size: items embedded per call, over all devices.
      similarity: `{"name": ...}` of the similarity of embeddings; None for the model's.
      bootstrap_samples: samples of every interval and correlation.
      seed: seed of the bootstrap and of random pools.
      precision: type of the scores of vectors; "float64", which CPUs compute, where float32 mixes
        scores up. Euclidean distances are float64 on CPUs anyway.
    """

    type: str
    data: Mapping[str, Any] | None = None
    split: str = "validation"
    final_split: str = "test"
    every: int = setting(0, at_least=0)
    batch_size: int = setting(256, at_least=1)
    similarity: Mapping[str, Any] | None = None
    bootstrap_samples: int = setting(1000, at_least=1)
    seed: int = setting(0, at_least=0)
    precision: str = setting("float32", one_of=("float32", "float64"))

    # Modalities, "image" and "text", that a model must have; none if any modality will do.
    needs: ClassVar[frozenset[str]] = frozenset()
    ranks_by: ClassVar[str] = ""  # The similarity, if it is not that of the model.

    @property
    def scores_pairs(self) -> bool:
        """Whether the model's cross-encoder ranks items."""
        return False

    @property
    def labels_read(self) -> tuple[str, ...]:
        """Label columns of the dataset that the evaluator reads, those of its option `labels`."""
        return tuple(filter(None, [getattr(self, "labels", "")]))

    @property
    def splits_read(self) -> tuple[str, ...]:
        """Splits of the dataset that it reads besides the evaluated one, its `train_split`."""
        return tuple(filter(None, [getattr(self, "train_split", "")]))

    def check(self, where: str) -> None:
        """Checks options that `config.read` cannot check; `where` is their section."""
        if self.similarity is not None:
            make_similarity(self.similarity, f"{where}.similarity")

    def default_metric(self, dataset: str) -> str:
        """Returns the default tag for `best_checkpoint` in a run on this dataset, or ""."""
        return ""


class Evaluator:
    """Evaluates models one by one on the same labels.

    `_read` reads the labels, adds them to `_label_hash` and describes in `_definition` what
    `_compute` computes.

    Attributes:
      options: its options.
      provenance: describes the labels.
      benchmarks: the benchmarks that it computes, if any.
      split: a `Split`; None for benchmarks without a prepared dataset.
      samples: what all models share that has values of its own, "pools" or "images"; "" for none.
    """

    options: Options
    provenance: Provenance
    samples: Literal["", "pools", "images"] = ""
    benchmarks: Sequence[Benchmark] = ()
    split: Any
    _definition: str

    def __init__(
        self,
        where: str,
        options: Options,
        split: Split,
        modalities: Collection[str],
        mesh: Mesh | None,
    ) -> None:
        """Reads the labels, see `make_evaluator`."""
        self.options = options
        self.provenance = describe_labels(split, split.title, split.hashes)
        self._where, self.split, self._mesh = where, split, mesh
        self._label_hash = LabelHash()
        if missing := sorted(options.needs - set(modalities)):
            raise UserError(
                f"{where} ({options.type}) needs a model with {' and '.join(missing)} embeddings; "
                f"this one has only {' and '.join(modalities)}."
            )
        self._read(modalities)

    @property
    def hashes(self) -> dict[str, str]:
        """The hash of the labels of every result that can be compared, by name."""
        own = {self.options.type: self._label_hash.digits()} if self.samples else {}
        return own | {each.name: each.label_hash for each in self.benchmarks}

    def tags(self, modalities: Collection[str]) -> list[str]:
        """Returns the tags of all metrics of a model with these modalities, without intervals."""
        return [tag for each in self.benchmarks for tag in list_tags(each, modalities)]

    def warnings(self) -> list[str]:
        """Returns warnings besides those of `provenance`, which may take long to find."""
        return []

    def source(self, adapter: ModelAdapter, split: Split | None = None) -> Source:
        """Returns the embeddings or scores of the split, with the similarity that ranks them."""
        similarity, batch_size = self.options.similarity, self.options.batch_size
        return adapter.items(split or self.split, similarity=similarity, batch_size=batch_size)

    def embeddings(self, adapter: ModelAdapter, split: Split | None = None) -> Embeddings:
        """Returns `source` of a model that has embeddings."""
        found = self.source(adapter, split)
        if not isinstance(found, Embeddings):
            raise UserError(f"{found.place} has no embeddings, which this evaluator needs.")
        return found

    def run(self, adapter: ModelAdapter) -> Sequence[Result]:
        """Returns all results of a model."""
        return [self._result(self._compute(self._ordered(adapter)))]

    def charts(self, adapter: ModelAdapter) -> list[Chart]:
        """Returns charts for the page of the report, besides those of the results."""
        return []

    def _ordered(self, adapter: ModelAdapter, split: Split | None = None) -> Embeddings:
        """`embeddings` in the order of the split."""
        return order_embeddings(self.embeddings(adapter, split), split or self.split)

    def _result(
        self, metrics: Mapping[str, float], repeats: Mapping[str, Sequence[float]] | None = None
    ) -> Result:
        """The result with these metrics, and their values in samples shared by all models."""
        return Result(
            self.options.type, self._definition, self._label_hash.digits(), metrics=metrics,
            repeats=repeats or {}, chance=self._chance(), samples=self.samples or "pools",
        )  # fmt: skip

    def _chance(self) -> dict[str, float]:
        """Metrics of a model that guesses, by tag; empty if they are not known."""
        return {}

    def _read(self, modalities: Collection[str]) -> None:
        """Reads the labels; raises an error if they or the modalities do not fit."""
        raise NotImplementedError

    def _compute(self, source: Embeddings) -> dict[str, float]:
        """Metrics by tag, with `_low` and `_high` appended for intervals.

        The source is in the order of the split. Evaluators that override `run` have none.
        """
        raise NotImplementedError

    def _column(self, name: str, split: Split | None = None) -> np.ndarray:
        """A label column of the split."""
        split = split or self.split
        if name not in split.labels:
            raise UserError(
                f"{self._where} needs the label column {name!r}, which {split.name} lacks; "
                f"{suggest([name], split.labels)}"
            )
        return np.asarray(split.labels[name])


def describe_labels(labels: Any, title: str, records: Mapping[str, str]) -> Provenance:
    """Returns the facts of the `Labels` of a split, or of a `Split`.

    A warning says what part of the split is evaluated, if it is not all.
    """
    partial = (
        f"PARTIAL: {labels.partial} of the {labels.split} split. Metrics on a smaller gallery are "
        "higher; they cannot be compared with published numbers."
    )
    warnings = [partial] * bool(labels.partial)
    return Provenance(f"{title}, {labels.split} split", warnings, records=records)
