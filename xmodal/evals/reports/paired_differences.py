"""Compares two models on the same labels: paired differences, and which may be noise."""

import dataclasses
import math
import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Literal

import numpy as np
from absl import logging

from xmodal.core.errors import UserError
from xmodal.core.text_table import Bold, format_document
from xmodal.evals.labels.ids import Positions
from xmodal.evals.labels.split import different_records
from xmodal.evals.reports.metrics import MEDIAN_RANK, lower_is_better
from xmodal.evals.reports.results import DirectionResult, Result
from xmodal.evals.reports.store import StoredResults
from xmodal.evals.reports.summary import compute_values, resample_values
from xmodal.evals.reports.uncertainty import (
    compute_difference_interval,
    compute_interval,
)

Samples = Literal["", "pools", "images", "runs"]

_TESTS = {
    "": "Intervals are from a bootstrap of the images; those of correlations, from every pair.",
    "runs": "Intervals are those of t-tests over the runs.",
    "images": "Intervals of accuracies are those of a paired t-test over the images.",
    "pools": "Intervals of pools are those of a paired t-test over the pools. Pools share pairs, "
    "so the intervals cover other pools of these pairs, but are too narrow for other pairs.",
}
_SAME_IMAGES = (
    "Both models see the same images, so items that are hard for both cancel out. Intervals leave "
    "out the variance between training seeds: two seeds of one config may be separable, so compare "
    "several runs of each."
)
_NOT_CORRECTED = (
    "Intervals are not corrected for the number of comparisons: for two equally good models, about "
    "5 % of these rows would say yes."
)


@dataclasses.dataclass(frozen=True)
class Difference:
    """One metric of two models, with the 95 % interval `low` to `high` of `value - other`.

    `samples` names those of both models whose mean the metric is, if it is one.
    """

    value: float
    other: float
    low: float
    high: float
    samples: Samples = ""

    @property
    def difference(self) -> float:
        """`value - other`; NaN if one of them is undefined."""
        return self.value - self.other

    @property
    def separable(self) -> bool:
        """Whether it is separable from noise: 0 lies outside the interval."""
        return bool(self.low > 0 or self.high < 0)


class Differences(dict[str, Difference]):
    """Differences between two models by tag; its text is a Markdown table and how to read it."""

    def __init__(
        self,
        found: Mapping[str, Difference],
        *,
        name: str = "ours",
        other: str = "theirs",
        shared: str = _SAME_IMAGES,
    ) -> None:
        """Takes the differences and the names of the models.

        Args:
          found: differences by tag.
          name: the first model.
          other: the other model.
          shared: a sentence on what the models have in common.
        """
        super().__init__(found)
        self.name, self.other, self.shared = name, other, shared

    def __str__(self) -> str:
        """Returns the table in Markdown."""
        return self.table()

    # A console shows the table, and so does a notebook.
    __repr__ = _repr_markdown_ = __str__

    def table(self, format: str = "markdown", tags: Collection[str] | None = None) -> str:
        """Returns the table, with a row per metric, and how to read it.

        Args:
          tags: metrics to show; None for all.
          format: "markdown" or "latex", in which a better value is bold if it is separable, and
            both if they are not.
        """
        rows = [["Metric", self.name, self.other, "difference", "95 % interval", "separable"]]
        shown = {tag: each for tag, each in self.items() if tags is None or tag in tags}
        for tag, each in shown.items():
            digits = 0 if tag.endswith(MEDIAN_RANK) and not each.samples else 2
            best = (min if lower_is_better(tag) else max)(each.value, each.other)
            cells = [
                Bold(text) if value == best or not each.separable else text
                for value in (each.value, each.other)
                for text in [_format(value, f".{digits}f")]
            ]
            difference, low, high = (
                _format(x, f"+.{digits}f") for x in (each.difference, each.low, each.high)
            )
            interval = low if low == "-" else f"{low} to {high}"
            rows.append([tag, *cells, difference, interval, "yes" if each.separable else "no"])
        count = sum(each.separable for each in shown.values())
        how_to_read = (
            f"{count} of {len(shown)} differences are separable from noise: 0 lies outside "
            f"of the 95 % interval. Differences are {self.name} minus {self.other}. {self.shared} "
            f"{_NOT_CORRECTED}"
        )
        kinds = sorted({each.samples for each in shown.values()})
        how_to_read += "".join(f" {_TESTS[kind]}" for kind in kinds)
        return format_document([f"## {self.name} against {self.other}", rows, how_to_read], format)

    def flatten(self) -> dict[str, float]:
        """Returns `<tag>_difference`, with `_low` and `_high`, and `<tag>_separable` (1 or 0)."""
        found: dict[str, float] = {}
        for tag, each in self.items():
            found[f"{tag}_difference"] = each.difference
            found[f"{tag}_difference_low"], found[f"{tag}_difference_high"] = each.low, each.high
            found[f"{tag}_separable"] = float(each.separable)
        return found


def _format(value: float, digits: str) -> str:
    return "-" if math.isnan(value) else f"{value:{digits}}"


def compare(
    ours: StoredResults, theirs: StoredResults, *, samples: int = 1000, seed: int = 0
) -> Differences:
    """Returns the differences between two models in every common metric, by tag.

    Both models are evaluated on the same resamples of the images, or by the difference of the
    influences of every rated pair, so shared difficulty cancels out: intervals of differences are
    narrower than the intervals of the values suggest. For pools, which all models share, and
    for images that are classified, the interval is that of a paired t-test over them. Nothing
    corrects for the number of comparisons: 5 % of the metrics of two equally good models look
    separable.
    """
    check_comparable(ours.labels, theirs)
    # Two models of one name are told apart by the folder.
    other_name = theirs.name + f" ({theirs.place})" * (theirs.name == ours.name)
    if names := different_records(ours.records, theirs.records):
        raise UserError(
            f"{ours.name} and {other_name} were evaluated on different records of "
            f"{' and '.join(names)}; evaluate both models on the same prepared dataset."
        )
    others = {each.name: each for each in theirs.results}
    found: dict[str, Difference] = {}
    for each in ours.results:
        if other := others.get(each.name):
            found |= compare_means(each.repeats, other.repeats, each.samples)
            found |= _compare_benchmark(each, other, samples=samples, seed=seed)
    return Differences(found, name=ours.name, other=other_name)


def check_comparable(ours: Mapping[str, str], theirs: StoredResults) -> None:
    """Raises an error if an evaluation cannot be compared with another model's.

    Args:
      ours: the hash of its labels by the name of the result.
      theirs: the other evaluation.
    """
    common = ours.keys() & theirs.labels.keys()
    if not common or any(ours[name] != theirs.labels[name] for name in common):
        raise UserError(
            "Paired differences need values of single queries, images or pools on the same labels, "
            f"and those of {theirs.name} are {theirs.labels} against {dict(ours)}: evaluate both "
            "models on the same benchmarks, annotations and split."
        )


def compare_means(
    ours: Mapping[str, Sequence[float]],
    theirs: Mapping[str, Sequence[float]],
    samples: Samples,
    *,
    paired: bool = True,
) -> dict[str, Difference]:
    """Returns the differences of means over samples, by tag, with the interval of a t-test.

    Args:
      ours: tag -> values of the samples.
      theirs: the same for the other model.
      samples: what they are.
      paired: whether both models have the same samples; otherwise, the test is Welch's.
    """
    from scipy import stats  # Slow to import, and few comparisons have these intervals.

    found: dict[str, Difference] = {}
    for tag in (tag for tag in ours if tag in theirs):
        values = [np.asarray(each[tag], np.float64) for each in (ours, theirs)]
        with warnings.catch_warnings(action="ignore"):  # All values may be equal.
            test = stats.ttest_rel(*values) if paired else stats.ttest_ind(*values, equal_var=False)
        low, high = test.confidence_interval()
        found[tag] = Difference(values[0].mean(), values[1].mean(), low, high, samples)
    return found


def _compare_benchmark(ours: Result, theirs: Result, **bootstrap: int) -> dict[str, Difference]:
    """Differences of two benchmarks in their common directions and ratings, by tag.

    Resamples depend on the images in the directions, so those that only one model has do not count.
    """
    rated = [name for name in ours.correlations if name in theirs.correlations]
    aligned = {
        name: _align(each, theirs.directions[name])
        for name, each in ours.directions.items()
        if name in theirs.directions
        and _is_paired(f"{ours.name}/{name}", each, theirs.directions[name])
    }
    one, other = (
        dataclasses.replace(
            each,
            directions={name: directions[name] for name in aligned},
            correlations={name: each.correlations[name] for name in rated},
        )
        for each, directions in ((ours, ours.directions), (theirs, aligned))
    )
    drawn, others = resample_values(one, **bootstrap), resample_values(other, **bootstrap)
    limits = {tag: compute_interval(x - others[tag]) for tag, x in drawn.items() if tag in others}
    for name in rated:
        limits[f"{ours.name}/{name}/spearman"] = compute_difference_interval(
            one.correlations[name], other.correlations[name]
        )
    other_values = compute_values(other)
    return {
        tag: Difference(value, other_values[tag], *limits[tag])
        for tag, value in compute_values(one).items()
        if tag in other_values
    }


def _is_paired(place: str, ours: DirectionResult, theirs: DirectionResult) -> bool:
    """Whether the values of a query are paired: second stages scored the same candidates."""
    scored = [each.rescored.candidates for each in (ours, theirs) if each.rescored]
    if len(set(scored)) < 2:
        return True
    logging.warning("%s is not compared: second stages scored %s.", place, " and ".join(scored))
    return False


def _align(ours: DirectionResult, theirs: DirectionResult) -> DirectionResult:
    """Their direction, with values and ranks in the order of our queries."""
    rows = Positions("query", theirs.query_ids)(ours.query_ids)
    return dataclasses.replace(
        theirs,
        clusters=ours.clusters,
        values={metric: values[rows] for metric, values in theirs.values.items()},
        rank=None if theirs.rank is None else theirs.rank[rows],
    )
