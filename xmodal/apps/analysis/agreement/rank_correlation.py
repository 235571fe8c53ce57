"""Rank correlation between metrics over models, and the ranks of the models."""

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np

from xmodal.evals.reports.metrics import lower_is_better

# Model -> metric tag -> number. A model without a tag, or with NaN, lacks the metric.
Models = Mapping[str, Mapping[str, float]]


@dataclasses.dataclass(frozen=True)
class Agreement:
    """Kendall's tau-b between every two metrics.

    Attributes:
      metrics: M tags.
      tau: float64 [M, M] in -1 to 1, symmetric; NaN where it is undefined.
      counts: int64 [M, M], models that have both metrics.
      notes: sentences on models without metrics and on undefined values, by metric.
    """

    metrics: tuple[str, ...]
    tau: np.ndarray
    counts: np.ndarray
    notes: tuple[str, ...]


def kendall_tau_b(models: Models, metrics: Sequence[str]) -> Agreement:
    """Correlates the rankings by every two metrics, over the models that have both.

    Ties are corrected for (variant b). If less is better for a metric, its sign is flipped, so that
    positive values always mean that the two metrics prefer the same models.

    Args:
      models: model -> tag -> number.
      metrics: tags, the rows and columns of the matrix.

    Returns:
      The matrix. A pair is NaN, with a reason in the notes, if fewer than two models have both
      metrics or one metric is the same for all of them.
    """
    from scipy import stats  # Slow to import.

    values = quality_table(models, metrics)
    shape = (len(metrics), len(metrics))
    tau, counts = np.full(shape, np.nan), np.zeros(shape, np.int64)
    reasons: dict[tuple[int, int], str] = {}
    for i in range(len(metrics)):
        for j in range(i, len(metrics)):
            both = ~np.isnan(values[:, i]) & ~np.isnan(values[:, j])
            left, right = values[both, i], values[both, j]
            counts[i, j] = counts[j, i] = len(left)
            if why := _why_undefined(left, right):
                reasons[i, j] = why
            else:
                tau[i, j] = tau[j, i] = stats.kendalltau(left, right, variant="b").statistic
    notes = [*_note_models(list(models), values), *_note_metrics(metrics, counts, reasons)]
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

    values = quality_table(models, metrics)
    ranks = {}
    for column, metric in enumerate(metrics):
        having = ~np.isnan(values[:, column])
        names = [name for name, has in zip(models, having, strict=True) if has]
        places = stats.rankdata(-values[having, column], method="average")
        ranks[metric] = dict(zip(names, places.tolist(), strict=True))
    return ranks


def quality_table(models: Models, metrics: Sequence[str]) -> np.ndarray:
    """The numbers, with larger ones better, float64 [models, M]; NaN for missing metrics."""
    signs = [-1.0 if lower_is_better(metric) else 1.0 for metric in metrics]
    return np.array(
        [
            [sign * row.get(metric, math.nan) for metric, sign in zip(metrics, signs, strict=True)]
            for row in models.values()
        ],
        np.float64,
    ).reshape(len(models), len(metrics))


def _why_undefined(left: np.ndarray, right: np.ndarray) -> str:
    if len(left) < 2:
        return f"{'no model has' if len(left) == 0 else 'only one model has'} both"
    if np.all(left == left[0]) or np.all(right == right[0]):
        return "one of the two is the same for all models that have both"
    return ""


def _note_models(models: Sequence[str], values: np.ndarray) -> list[str]:
    bare = [model for model, row in zip(models, values, strict=True) if np.all(np.isnan(row))]
    return [f"Models with none of these metrics: {', '.join(bare)}."] if bare else []


def _note_metrics(
    metrics: Sequence[str], counts: np.ndarray, reasons: Mapping[tuple[int, int], str]
) -> list[str]:
    """Sentences on undefined values: a metric without tau even with itself is named only once."""
    alone = [i for i, j in reasons if i == j]
    few = [metrics[i] for i in alone if counts[i, i] < 2]
    same = [metrics[i] for i in alone if counts[i, i] >= 2]
    notes = []
    if few:
        notes.append(f"Without tau, as fewer than two models have them: {', '.join(few)}.")
    if same:
        notes.append(f"Without tau, as all models have the same value: {', '.join(same)}.")
    grouped: dict[tuple[int, str], list[str]] = {}
    for (i, j), why in reasons.items():
        if i not in alone and j not in alone:
            grouped.setdefault((i, why), []).append(metrics[j])
    for (i, why), others in grouped.items():
        notes.append(f"No tau between {metrics[i]} and {', '.join(others)}: {why}.")
    return notes
