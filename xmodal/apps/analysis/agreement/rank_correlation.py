"""Rank correlation between metrics over models, and the ranks of the models."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from xmodal.apps.analysis.agreement.metric_tables import Models
from xmodal.evals.reports.metrics import lower_is_better


@dataclasses.dataclass(frozen=True)
class Agreement:
    """Kendall's tau-b between every two metrics.

    Attributes:
      metrics: M tags.
      tau: float64 [M, M] in -1 to 1, symmetric; NaN where it is undefined.
      counts: int64 [M, M], models that have both metrics.
      notes: sentences on models without metrics and on undefined values.
    """

    metrics: tuple[str, ...]
    tau: np.ndarray
    counts: np.ndarray
    notes: tuple[str, ...]


def kendall_tau_b(models: Models, metrics: Sequence[str]) -> Agreement:
    """Correlates the rankings by every two metrics, over the models that have both.

    Ties are corrected for (variant b). If less is better for a metric, its sign is flipped, so that
    positive values always mean that the two metrics prefer the same models. A pair is NaN if fewer
    than two models have both metrics or one metric is the same for all of them.

    Args:
      models: model -> tag -> number.
      metrics: tags, the rows and columns of the matrix.
    """
    from scipy import stats  # Slow to import.

    values, size = _quality_table(models, metrics), len(metrics)
    tau, counts = np.full((size, size), np.nan), np.zeros((size, size), np.int64)
    for i in range(size):
        for j in range(i, size):
            pairs = values[:, [i, j]]
            left, right = pairs[~np.isnan(pairs).any(axis=1)].T
            counts[i, j] = counts[j, i] = len(left)
            if len(left) > 1:  # SciPy's tau is NaN if one side is constant.
                tau[i, j] = tau[j, i] = stats.kendalltau(left, right).statistic
    notes = []
    if bare := [name for name, row in zip(models, values, strict=True) if np.isnan(row).all()]:
        notes.append(f"Models with none of these metrics: {', '.join(bare)}.")
    undefined = np.isnan(tau)
    if alone := [metric for i, metric in enumerate(metrics) if undefined[i, i]]:
        notes.append(
            "Without tau, as fewer than two models have them or all have the same value: "
            f"{', '.join(alone)}."
        )
    for i, metric in enumerate(metrics):
        others = [other for j, other in enumerate(metrics) if j > i and undefined[i, j]]
        if others := [other for other in others if {metric, other}.isdisjoint(alone)]:
            notes.append(
                f"No tau between {metric} and {', '.join(others)}: fewer than two models have "
                "both, or one is the same for all of these."
            )
    return Agreement(tuple(metrics), tau, counts, tuple(notes))


def ranks_of_models(models: Models, metrics: Sequence[str]) -> dict[str, dict[str, float]]:
    """Ranks the models by every metric, 1 for the best.

    Tied models share the mean of their ranks (2.5 and 2.5, then 4), as in every rank correlation,
    so the ranks of n models always sum to n(n+1)/2.

    Args:
      models: model -> tag -> number.
      metrics: tags.

    Returns:
      Tag -> model -> rank, in the order of `models` and without those that lack the metric.
    """
    from scipy import stats  # Slow to import.

    places = stats.rankdata(-_quality_table(models, metrics), axis=0, nan_policy="omit")
    return {
        metric: {name: rank for name, rank in zip(models, column, strict=True) if rank == rank}
        for metric, column in zip(metrics, places.T.tolist(), strict=True)
    }


def _quality_table(models: Models, metrics: Sequence[str]) -> np.ndarray:
    """The numbers, with larger ones better, float64 [models, M]; NaN for missing metrics."""
    values = [[row.get(metric, math.nan) for metric in metrics] for row in models.values()]
    signs = [-1.0 if lower_is_better(metric) else 1.0 for metric in metrics]
    return np.array(values, np.float64).reshape(len(models), len(metrics)) * signs
