"""Results of an evaluation by query; all printed and compared numbers come from these."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from xmodal.evals.labels.definitions import DIRECTIONS, RATING_SIDES, find_title

RSUM = "rsum"  # Follows the benchmark in tags: the sum of the recalls of both directions.
METRIC_NAMES = {
    "map": "mAP",
    "map@r": "mAP@R",
    "r_precision": "R-P",
    "ndcg@10": "nDCG@10",
    "recall@1": "R@1",
    "recall@5": "R@5",
    "recall@10": "R@10",
    "mrr": "MRR",
    "median_rank": "med r",
    "pmrp": "PMRP",
}
"""Metric at the end of a tag -> its name in tables."""
# Other parts of tags.
_PART_NAMES = {
    **{name: " to ".join(ends) for name, ends in DIRECTIONS.items()},
    **{name: name.upper() for name in RATING_SIDES},
    **{"mean": "mean of both directions", "spearman": "Spearman", "pearson": "Pearson"},
}


@dataclasses.dataclass(frozen=True)
class Rescored:
    """Facts of a direction whose pairs were scored by a second stage.

    Attributes:
      candidates: the scored items in words; results are comparable where they are equal.
      description: a sentence without its subject, with the positives that were not scored.
    """

    candidates: str
    description: str


@dataclasses.dataclass(frozen=True)
class DirectionResult:
    """One direction of one benchmark; rows are its queries.

    Attributes:
      query_ids: int64 [Q].
      clusters: int32 [Q], position of the image that a query shows or describes: queries of one
        image are resampled together.
      values: metric -> float64 [Q], the value of every query, in percent.
      rank: int32 [Q], items ahead of the best positive, or None if not known.
      tied: bool [Q], whether the rank, or the items that R-Precision counts, depend on the tie
        rule, see `scores.ranks.RankedQueries`; None if unknown, as for ranked lists.
      rounded: share of the ranks that float32's rounding decides, see `RankedQueries`.
      gallery: items a query is ranked among, itself excluded.
      skipped: queries without a positive.
      has_median: whether the median of `rank` is a metric of the benchmark.
      missing: metric -> why it could not be computed.
      rescored: facts of the second stage, if one ranked the items.
      chance: metric -> its value for a random order of the items, see `chance.compute_chance`.
    """

    query_ids: np.ndarray
    clusters: np.ndarray
    values: Mapping[str, np.ndarray]
    gallery: int
    skipped: int
    rank: np.ndarray | None = None
    tied: np.ndarray | None = None
    rounded: float = 0.0
    has_median: bool = False
    missing: Mapping[str, str] = dataclasses.field(default_factory=dict)
    rescored: Rescored | None = None
    chance: Mapping[str, float] = dataclasses.field(default_factory=dict)

    @property
    def counts(self) -> dict[str, int | None]:
        """Sizes by their names in tags; ties are None if they are unknown."""
        return {
            "queries": len(self.query_ids),
            "gallery": int(self.gallery),
            "skipped_queries": int(self.skipped),
            "tied_queries": None if self.tied is None else int(self.tied.sum()),
        }


@dataclasses.dataclass(frozen=True)
class CorrelationResult:
    """One bootstrapped correlation over P rated pairs.

    Attributes:
      samples: float64 [S], Spearman x100 of every sample; NaN if a modality was constant.
      pairs_per_sample: number of pairs in each sample.
      images: int64 [2, P], ids of the images that both items of every pair show or describe.
      influence: float32 [P], x100, influence of every pair on the correlation, see
        `metrics.compute_influence`.
    """

    samples: np.ndarray
    pairs_per_sample: int
    images: np.ndarray
    influence: np.ndarray

    @property
    def counts(self) -> dict[str, float]:
        """Deviation of the defined samples, and sizes, by their names in tags."""
        defined = self.samples[~np.isnan(self.samples)]
        return {
            "spearman_std": float(defined.std()) if len(defined) else np.nan,
            "pairs": len(self.influence),
            "pairs_per_sample": self.pairs_per_sample,
        }


@dataclasses.dataclass(frozen=True)
class Result:
    """What an evaluator computed: a benchmark by direction and rating, or only numbers.

    Attributes:
      name: name of the benchmark, or the type of the evaluator.
      definition: describes what is computed.
      label_hash: hash of the labels.
      directions: direction -> its queries, see `labels.types.Benchmark`.
      correlations: rating -> its pairs.
      skipped: direction or rating that is left out -> the reason.
      metrics: tag -> number, for results without directions and ratings. `<tag>_std` is the
        deviation of `<tag>`; `<tag>_low` and `<tag>_high` are the limits of its interval.
      repeats: tag -> [S], values of a metric in samples that all models share, whose mean it is.
      chance: tag -> the number of a model that guesses.
      samples: the kind of the samples of `repeats`.
      label_set: name of the labels, see `labels.types.Benchmark`; "" without a benchmark.
      classes: of a classification, the `names` of the C classes, and for every image, by id, int
        [N], its `own` class and the `predicted` one, the first of those with the highest score.
    """

    name: str
    definition: str
    label_hash: str
    directions: Mapping[str, DirectionResult] = dataclasses.field(default_factory=dict)
    correlations: Mapping[str, CorrelationResult] = dataclasses.field(default_factory=dict)
    skipped: Mapping[str, str] = dataclasses.field(default_factory=dict)
    metrics: Mapping[str, float] = dataclasses.field(default_factory=dict)
    repeats: Mapping[str, Sequence[float]] = dataclasses.field(default_factory=dict)
    chance: Mapping[str, float] = dataclasses.field(default_factory=dict)
    samples: Literal["pools", "images"] = "pools"
    label_set: str = ""
    classes: Mapping[str, Sequence[Any]] = dataclasses.field(default_factory=dict)


def name_labels(benchmark: str, label_set: str) -> str:
    """Returns `eccv` on its own labels, and `eccv (mine@2026-11)` on others."""
    return benchmark if label_set in ("", benchmark) else f"{benchmark} ({label_set})"


def evaluator_tag(evaluator: str, tag: str) -> str:
    """Returns `evaluator/tag`, or the tag itself without a name or if it begins with it."""
    return tag if evaluator in ("", tag.partition("/")[0]) else f"{evaluator}/{tag}"


def metric_tag(benchmark: str, direction: str, metric: str) -> str:
    """`cxc/i2t/recall@1`; PMRP is the only metric of its benchmarks, so `pmrp/i2t` is enough."""
    return f"{benchmark}/{direction}" if metric == "pmrp" else f"{benchmark}/{direction}/{metric}"


def name_metric(metric: str) -> str:
    """Returns the name of a metric in tables."""
    return METRIC_NAMES.get(metric) or metric.replace("recall@", "R@").replace("ndcg@", "nDCG@")


def name_tag(tag: str) -> str:
    """Returns what people call a metric: "COCO 5K, image to text, R@1".

    A public benchmark is not preceded by the name of its evaluator.
    """
    parts, titles = tag.split("/"), []
    for part in parts:
        benchmark, space, labels = part.partition(" ")  # See `name_labels`.
        titles.append(find_title(benchmark) and f"{find_title(benchmark)}{space}{labels}")
    first = next((number for number, title in enumerate(titles) if title), 0)
    words = [
        title or _PART_NAMES.get(part) or name_metric(part)
        for part, title in zip(parts[first:], titles[first:], strict=True)
    ]
    return ", ".join(words).replace("_", " ")


@dataclasses.dataclass(frozen=True)
class Provenance:
    """Facts that accompany the numbers of a report.

    Attributes:
      title: names dataset and split.
      warnings: warnings to read before any number.
      notes: other facts.
      records: hash of the records of every prepared dataset that was evaluated, by name.
    """

    title: str
    warnings: Sequence[str] = ()
    notes: Sequence[str] = ()
    records: Mapping[str, str] = dataclasses.field(default_factory=dict)
