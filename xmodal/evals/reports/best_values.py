"""The best of several models by a metric, and those that its intervals do not separate."""

import math
from collections.abc import Mapping, Sequence

from xmodal.evals.reports.metrics import lower_is_better


def find_best(tag: str, models: Sequence[Mapping[str, float]]) -> list[bool]:
    """Returns for each model whether it is the best or its interval overlaps that of the best.

    Args:
      tag: the metric.
      models: metrics by tag; `_low` and `_high` of the tag are its 95 % interval, without which
        values are taken as exact.

    Returns:
      A boolean per model; all false if fewer than two have the metric.
    """
    limits = [_limits(tag, metrics) for metrics in models]
    known = [each for each in limits if each is not None]
    if len(known) < 2:
        return [False] * len(limits)
    sign = -1 if lower_is_better(tag) else 1
    _, low, high = max(known, key=lambda each: sign * each[0])
    return [each is not None and each[1] <= high and low <= each[2] for each in limits]


def _limits(tag: str, metrics: Mapping[str, float]) -> tuple[float, float, float] | None:
    """The value and the ends of its interval; None if it is missing or undefined."""
    value = metrics.get(tag, math.nan)
    low, high = (metrics.get(f"{tag}_{end}", value) for end in ("low", "high"))
    return None if math.isnan(value) else (value, low, high)
