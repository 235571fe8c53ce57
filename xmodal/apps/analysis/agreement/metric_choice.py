"""Chooses the metrics to compare: the requested ones, or a readable selection."""

import collections
import fnmatch
import math
from collections.abc import Iterable, Sequence

from xmodal.apps.analysis.agreement.rank_correlation import Models
from xmodal.core.errors import UserError
from xmodal.evals.reports.metrics import MEAN_SELECTED
from xmodal.evals.reports.published import ECCV_TABLE_5_METRICS

# More columns than this are hard to read.
_MOST_METRICS = 12
# What the recalls beside them say.
_REDUNDANT = ("median_rank", "rsum")
# A few metrics per board, for boards that table 5 does not have.
_HEADLINES = ("*/mean/recall@1", "*/t2t/recall@1", "*/i2i/recall@1", "*/spearman")
# Tags that accompany a metric and do not rank models.
SUFFIXES = ("_low", "_high", "_std")
_COUNTS = ("queries", "skipped_queries", "tied_queries", "gallery", "pairs", "pairs_per_sample")
# The step of a checkpoint, and a copy of the metric that selected it.
_OF_TRAINING = ("step", *MEAN_SELECTED)


def choose_metrics(
    models: Models, metrics: Sequence[str] | None = None, *, at_least: int = 2
) -> tuple[str, ...]:
    """The tags to compare.

    Args:
      models: model -> tag -> number.
      metrics: requested tags; `*` in one stands for any characters, except in counts, ends of
        intervals and numbers about training. None takes all other tags that two or more models
        have. If these are more than twelve: all but median ranks and sums of recalls; if these
        are still more, those in table 5 of the ECCV Caption paper, and R@1 and correlations of
        other boards; without any of them, again all if one is enough.
      at_least: smallest number of tags.

    Raises:
      UserError: a tag is in no model or given twice, there are too few tags, or tags
        of one model are to be chosen.
    """
    judging = _judging(models)
    if metrics is not None:
        found = _expand(metrics, judging)
        known = {tag for row in models.values() for tag in row}
        unknown = [tag for tag in found if tag not in known]
        if unknown:
            raise UserError(f"No model has the metric(s) {unknown}; known: {list(judging)}.")
        if len(found) < at_least or len(set(metrics)) < len(metrics):
            few = "two or more metrics" if at_least == 2 else "metrics"
            raise UserError(f"Name {few} to compare, each once, got {list(metrics)}.")
        return tuple(found)
    if len(models) < 2:
        raise UserError(
            f"Metrics are chosen from those that several models share, but {list(models)} is one "
            "model: add another, or name the metrics."
        )
    shared = [tag for tag, count in judging.items() if count > 1]
    if len(shared) < at_least:
        raise UserError(
            f"At least {at_least} metrics shared by several models are needed, but these are "
            f"{shared}: evaluate the models on the same boards. All metrics: {list(judging)}."
        )
    chosen = shared if len(shared) <= _MOST_METRICS else _shorten(shared, at_least)
    if not chosen and at_least == 1:
        return tuple(shared)
    if len(chosen) < at_least:
        raise UserError(
            f"Name two or more metrics to compare; {len(shared)} are too many to choose from: "
            f"{shared}."
        )
    return tuple(chosen)


def describe_left_out(models: Models) -> str:
    """One sentence on metrics that only a single model has, or ''."""
    groups = collections.Counter(
        _board(tag) for tag, count in _judging(models).items() if count < 2
    )
    if not groups:
        return ""
    listed = ", ".join(f"{name} ({count})" for name, count in groups.items())
    return f"Left out, as fewer than two models have them: metrics of {listed}."


def _expand(metrics: Sequence[str], judging: Iterable[str]) -> list[str]:
    """Tags in place of patterns; a pattern of none of them is kept."""
    matching = [fnmatch.filter(judging, each) if "*" in each else [] for each in metrics]
    tags = zip(metrics, matching, strict=True)
    return list(dict.fromkeys(tag for each, found in tags for tag in found or [each]))


def _judging(models: Models) -> dict[str, int]:
    """Tag -> number of models that have it, without tags that do not rank models."""
    counts = dict.fromkeys((tag for row in models.values() for tag in row), 0)
    for row in models.values():
        for tag, value in row.items():
            counts[tag] += not math.isnan(value)
    return {tag: count for tag, count in counts.items() if not _is_background(tag)}


def _shorten(tags: Sequence[str], at_least: int) -> list[str]:
    telling = [tag for tag in tags if tag.rpartition("/")[2] not in _REDUNDANT]
    if at_least <= len(telling) <= _MOST_METRICS:
        return telling
    paper = [tag for tag in ECCV_TABLE_5_METRICS if tag in tags]
    boards = {_board(tag) for tag in paper}
    others = [tag for tag in tags if _board(tag) not in boards]
    return paper + [
        tag for tag in others if any(fnmatch.fnmatchcase(tag, like) for like in _HEADLINES)
    ]


def _board(tag: str) -> str:
    return tag.split("/")[0]


def _is_background(tag: str) -> bool:
    return tag.endswith(SUFFIXES) or tag.split("/")[-1] in (*_COUNTS, *_OF_TRAINING)
