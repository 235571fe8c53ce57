"""Results as flat numbers: values, their 95 % intervals and counts."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from xmodal.evals.labels.types import Benchmark
from xmodal.evals.reports import uncertainty
from xmodal.evals.reports.metrics import MEAN_SELECTED, MEDIAN_RANK, SELECTED, compute_median_rank
from xmodal.evals.reports.results import RSUM, Result, metric_tag

MEAN = "mean"  # Used in tags in place of a direction.
_MEAN_OF = ("i2t", "t2i")
_SUMMED = ("recall@1", "recall@5", "recall@10")
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
    selects checkpoints: the mean over i2t and t2i, or t2t on a benchmark without images.
    """
    found: dict[str, float] = {}
    for result in results:
        plain = result.metrics.items()
        found |= {tag: x for tag, x in plain if intervals or not tag.endswith(_LIMITS)}
        resampled = uncertainty.resample(result, samples=samples, seed=seed) if intervals else {}
        drawn = name_values(result.name, resampled)
        limits = {tag: uncertainty.compute_interval(each) for tag, each in drawn.items()}
        for name, each in result.correlations.items() if intervals else ():
            value, noise = uncertainty.compute_mean(each.samples)
            limits[f"{result.name}/{name}/spearman"] = uncertainty.compute_correlation_interval(
                value, each.images, each.influence, noise, unit=100.0
            )
        for tag, value in compute_values(result).items():
            found[tag] = value
            if tag in limits:
                found[f"{tag}_low"], found[f"{tag}_high"] = limits[tag]
        parts: dict[str, Any] = {**result.directions, **result.correlations}
        for name, part in parts.items():
            counts = part.counts.items()
            found |= {f"{result.name}/{name}/{k}": float(n) for k, n in counts if n is not None}
        selecting = _selection_tags(result.name, result.directions).items()
        found |= {tag: found[metric] for tag, metric in selecting if metric in found}
    return found


def list_tags(benchmark: Benchmark, modalities: Collection[str]) -> list[str]:
    """Returns the tags of `summarize` without intervals, for a model with these modalities."""
    shown = [name for name, needed in benchmark.compared.items() if {*needed} <= {*modalities}]
    labeled = benchmark.directions.items()
    directions = {name: dict.fromkeys(x.metrics, 0.0) for name, x in labeled if name in shown}
    values = name_values(benchmark.name, directions)
    selecting = _selection_tags(benchmark.name, directions)
    found = [*values, *(tag for tag, metric in selecting.items() if metric in values)]
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


def compute_values(result: Result) -> dict[str, float]:
    """Every metric of a benchmark, means and sum over i2t and t2i included: tag -> value."""
    found: dict[str, dict[str, float]] = {}
    for name, each in result.directions.items():
        metrics = each.values.items()
        found[name] = {metric: float(x.mean()) if len(x) else np.nan for metric, x in metrics}
        if each.rank is not None and each.has_median:
            median = compute_median_rank(each.rank) if len(each.rank) else np.nan
            found[name][MEDIAN_RANK] = median
    return name_values(result.name, found) | {
        f"{result.name}/{name}/spearman": uncertainty.compute_mean(each.samples)[0]
        for name, each in result.correlations.items()
    }


def name_values(benchmark: str, directions: Mapping[str, Mapping[str, Value]]) -> dict[str, Value]:
    """Returns values of direction -> metric by tag, and their means and sum over i2t and t2i."""
    found = {
        metric_tag(benchmark, name, metric): value
        for name, values in directions.items()
        for metric, value in values.items()
    }
    i2t, t2i = (directions.get(name, {}) for name in _MEAN_OF)
    for metric in i2t:
        if metric in t2i and metric != MEDIAN_RANK:
            found[metric_tag(benchmark, MEAN, metric)] = (i2t[metric] + t2i[metric]) / 2
    if i2t.keys() & t2i.keys() >= {*_SUMMED}:
        total: Any = sum(each[metric] for each in (i2t, t2i) for metric in _SUMMED)
        found[f"{benchmark}/{RSUM}"] = total
    return found


def _selection_tags(benchmark: str, directions: Collection[str]) -> dict[str, str]:
    """Tags of `MEAN_SELECTED` -> those of the metrics that they repeat."""
    table = MEAN if {*_MEAN_OF, "i2i"} & set(directions) else "t2t"
    return {
        f"{benchmark}/mean_{metric}": metric_tag(benchmark, table, metric) for metric in SELECTED
    }
