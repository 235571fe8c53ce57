"""Results as flat numbers: values, their 95 % intervals and counts."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from xmodal.evals.labels.types import Benchmark
from xmodal.evals.reports.correlation_intervals import compute_correlation_interval
from xmodal.evals.reports.metrics import (
    MEAN_SELECTED,
    MEDIAN_RANK,
    SELECTED,
    compute_median_rank,
    lower_is_better,
)
from xmodal.evals.reports.results import (
    RSUM,
    BenchmarkResult,
    DirectionResult,
    Numbers,
    Result,
    metric_tag,
)
from xmodal.evals.reports.uncertainty import Bootstrap, compute_interval

MEAN = "mean"  # Used in tags in place of a direction.
_MEAN_OF = ("i2t", "t2i")
_SUMMED = ("recall@1", "recall@5", "recall@10")
_MEAN_METRICS = (*_SUMMED, "mrr", "map@r", "r_precision", "pmrp")
_LARGEST_SUM = 100 * len(_SUMMED) * len(_MEAN_OF)
# Suffixes of tags that training does not change, and of one that repeats another tag.
_OF_QUERIES = ("queries", "skipped_queries", "tied_queries", "gallery")
_OF_PAIRS = ("spearman", "spearman_std", "pairs", "pairs_per_sample")
_NO_CURVES = {*_OF_QUERIES, *_OF_PAIRS[2:], "base_rate", *MEAN_SELECTED}
_LIMITS = ("_low", "_high")

Value = TypeVar("Value", float, np.ndarray)


def summarize(
    results: Sequence[Result], *, intervals: bool, samples: int = 1000, seed: int = 0
) -> dict[str, float]:
    """Returns all numbers of an evaluation, with 95 % `intervals` on request.

    Tag -> value, in percent except for median ranks and counts, NaN for undefined values:
    `<benchmark>/<direction>/<metric>`, with intervals also `<tag>_low` and `<tag>_high`;
    `<benchmark>/mean/<metric>` over i2t and t2i, and `<benchmark>/rsum`, the sum of their recalls
    at 1, 5 and 10; the counts `queries`, `skipped_queries`, `tied_queries` (if ties are known),
    `gallery` and `pairs`, `pairs_per_sample`; `spearman` and `spearman_std` over the samples that
    are defined; and `<benchmark>/mean_recall@10` and `<benchmark>/mean_mrr`, by which training
    selects
    checkpoints: the mean over i2t and t2i, or t2t on a benchmark without images.
    """
    bootstrap = Bootstrap(samples=samples, seed=seed)
    found: dict[str, float] = {}
    for benchmark in results:
        if isinstance(benchmark, Numbers):
            metrics = benchmark.metrics.items()
            found |= {tag: x for tag, x in metrics if intervals or not tag.endswith(_LIMITS)}
            continue
        limits: dict[str, tuple[float, float]] = {}
        if intervals:
            drawn = compute_samples(benchmark, bootstrap)
            limits = {tag: compute_interval(each) for tag, each in drawn.items()}
            for name, correlation in benchmark.correlations.items():
                limits[f"{benchmark.name}/{name}/spearman"] = compute_correlation_interval(
                    correlation
                )
        for tag, value in compute_values(benchmark).items():
            found[tag] = value
            if tag in limits:
                found[f"{tag}_low"], found[f"{tag}_high"] = limits[tag]
        for name, direction in benchmark.directions.items():
            counts = count_queries(direction).items()
            found |= {f"{benchmark.name}/{name}/{k}": float(n) for k, n in counts if n is not None}
        for name, correlation in benchmark.correlations.items():
            defined, prefix = _defined(correlation.samples), f"{benchmark.name}/{name}"
            found[f"{prefix}/spearman_std"] = float(defined.std()) if len(defined) else np.nan
            found[f"{prefix}/pairs"] = float(len(correlation.influence))
            found[f"{prefix}/pairs_per_sample"] = float(correlation.pairs_per_sample)
        for tag, metric in _selection_tags(benchmark.name, benchmark.directions).items():
            if metric in found:
                found[tag] = found[metric]
    return found


def list_tags(benchmark: Benchmark, modalities: Collection[str]) -> list[str]:
    """Returns the tags of `summarize` without intervals, for a model with these modalities."""
    shown = [name for name, needed in benchmark.compared.items() if {*needed} <= {*modalities}]
    directions = [name for name in shown if name in benchmark.directions]
    tags = [
        metric_tag(benchmark.name, x, m)
        for x in directions
        for m in benchmark.directions[x].metrics
    ]
    values = dict.fromkeys(tags, 0.0)
    values |= _compute_means(benchmark.name, values)
    selecting = _selection_tags(benchmark.name, directions)
    values |= {tag: 0.0 for tag, metric in selecting.items() if metric in values}
    found = [*values]
    for name in shown:
        counts = _OF_QUERIES if name in directions else _OF_PAIRS
        found += [f"{benchmark.name}/{name}/{count}" for count in counts]
    return found


def select_curves(metrics: Mapping[str, float]) -> dict[str, float]:
    """Returns the metrics that are worth a curve, without counts, duplicates or intervals."""
    return {
        tag: x
        for tag, x in metrics.items()
        if tag.rpartition("/")[2] not in _NO_CURVES
        and not any(tag.endswith(end) and tag.removesuffix(end) in metrics for end in _LIMITS)
    }


def compute_values(benchmark: BenchmarkResult) -> dict[str, float]:
    """Every metric of a benchmark, means and sum over i2t and t2i included: tag -> value."""
    found = {}
    for name, direction in benchmark.directions.items():
        for metric, values in direction.values.items():
            found[metric_tag(benchmark.name, name, metric)] = _mean(values)
        if direction.has_median:
            asked = len(direction.rank) > 0
            median = compute_median_rank(direction.rank) if asked else np.nan
            found[metric_tag(benchmark.name, name, MEDIAN_RANK)] = median
    found |= _compute_means(benchmark.name, found)
    for name, correlation in benchmark.correlations.items():
        found[f"{benchmark.name}/{name}/spearman"] = _mean(_defined(correlation.samples))
    return found


def compute_chance_values(results: Sequence[Result]) -> dict[str, float]:
    """Returns the values of a random order or a guess by the tags of `summarize`, if known."""
    found: dict[str, float] = {}
    for each in results:
        if isinstance(each, Numbers):
            found |= each.chance
            continue
        of_benchmark = {
            metric_tag(each.name, name, metric): value
            for name, direction in each.directions.items()
            for metric, value in direction.chance.items()
        }
        found |= of_benchmark | _compute_means(each.name, of_benchmark)
        found |= {f"{each.name}/{name}/spearman": 0.0 for name in each.correlations}
    return found


def find_chance_results(metrics: Mapping[str, float], chance: Mapping[str, float]) -> list[str]:
    """Returns the tags of metrics whose 95 % interval includes chance or lies on its worse
    modality.

    Where chance is perfect, as R@10 among ten items, no model can be better, so nothing is said.
    """
    found = []
    for tag, value in chance.items():
        low, high = (metrics.get(f"{tag}_{end}", np.nan) for end in ("low", "high"))
        if lower_is_better(tag):
            is_chance = 1 < value <= high
        else:
            is_chance = low <= value < (_LARGEST_SUM if tag.endswith(RSUM) else 100)
        if is_chance:
            found.append(tag)
    return found


def compute_samples(benchmark: BenchmarkResult, bootstrap: Bootstrap) -> dict[str, np.ndarray]:
    """The retrieval tags of `compute_values`, each with its float64 [S] bootstrap samples."""
    found = bootstrap.resample(benchmark)
    return found | _compute_means(benchmark.name, found)


def _compute_means(benchmark: str, found: Mapping[str, Value]) -> dict[str, Value]:
    means: dict[str, Value] = {}
    for metric in _MEAN_METRICS:
        tags = [metric_tag(benchmark, direction, metric) for direction in _MEAN_OF]
        if all(tag in found for tag in tags):
            means[metric_tag(benchmark, MEAN, metric)] = (found[tags[0]] + found[tags[1]]) / 2
    recalls = [metric_tag(benchmark, direction, each) for direction in _MEAN_OF for each in _SUMMED]
    if all(tag in found for tag in recalls):
        total: Any = sum(found[tag] for tag in recalls)
        means[f"{benchmark}/{RSUM}"] = total
    return means


def count_queries(direction: DirectionResult) -> dict[str, int | None]:
    """Sizes of a direction; ties are None if they are unknown."""
    return {
        "queries": len(direction.query_ids),
        "skipped_queries": int(direction.skipped),
        "tied_queries": None if direction.tied is None else int(direction.tied.sum()),
        "gallery": int(direction.gallery),
    }


def _selection_tags(benchmark: str, directions: Collection[str]) -> dict[str, str]:
    """Tags of `MEAN_SELECTED` -> those of the metrics that they repeat."""
    table = MEAN if {*_MEAN_OF, "i2i"} & set(directions) else "t2t"
    return {
        f"{benchmark}/mean_{metric}": metric_tag(benchmark, table, metric) for metric in SELECTED
    }


def _defined(samples: np.ndarray) -> np.ndarray:
    return samples[~np.isnan(samples)]


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else np.nan
