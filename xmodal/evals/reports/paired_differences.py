"""Compares two models on the same labels: paired differences, and which may be noise."""

import dataclasses
import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from absl import logging

from xmodal.core.errors import UserError
from xmodal.core.text_table import Bold, format_document, format_number
from xmodal.evals.labels.ids import Positions
from xmodal.evals.labels.split import different_records
from xmodal.evals.reports.metrics import MEDIAN_RANK, lower_is_better
from xmodal.evals.reports.results import DirectionResult, Result
from xmodal.evals.reports.summary import compute_values, name_values
from xmodal.evals.reports.uncertainty import compute_difference_interval, compute_interval, resample

if TYPE_CHECKING:
    from xmodal.evals.reports.evaluation import Evaluation

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
            values, signed = (each.value, each.other), (each.difference, each.low, each.high)
            cells: list[str] = [
                (Bold if x == best or not each.separable else str)(format_number(x, f".{digits}f"))
                for x in values
            ]
            difference, low, high = (format_number(x, f"+.{digits}f") for x in signed)
            interval = low if low == "-" else f"{low} to {high}"
            rows.append([tag, *cells, difference, interval, "yes" if each.separable else "no"])
        count = sum(each.separable for each in shown.values())
        how_to_read = (
            f"{count} of {len(shown)} differences are separable from noise: 0 lies outside "
            f"of the 95 % interval. Differences are {self.name} minus {self.other}. {self.shared} "
            f"{_NOT_CORRECTED}"
        )
        how_to_read += "".join(f" {_TESTS[x]}" for x in sorted({x.samples for x in shown.values()}))
        return format_document([f"## {self.name} against {self.other}", rows, how_to_read], format)

    def flatten(self) -> dict[str, float]:
        """Returns `<tag>_difference`, with `_low` and `_high`, and `<tag>_separable` (1 or 0)."""
        found: dict[str, float] = {}
        for tag, each in self.items():
            found[f"{tag}_difference"] = each.difference
            found[f"{tag}_difference_low"], found[f"{tag}_difference_high"] = each.low, each.high
            found[f"{tag}_separable"] = float(each.separable)
        return found


def compare(ours: "Evaluation", theirs: "Evaluation") -> Differences:
    """Returns the differences between two models in every common metric, by tag.

    Both models are evaluated on the resamples of `ours`, or by the difference of the influences of
    every rated pair, so shared difficulty cancels out: intervals of differences are narrower than
    the intervals of the values suggest. For pools, which all models share, and for images that are
    classified, the interval is that of a paired t-test over them. Nothing corrects for the number
    of comparisons: 5 % of the metrics of two equally good models look separable.
    """
    check_comparable(ours.hashes, theirs)
    # Two models of one name are told apart by the folder.
    is_told_apart = theirs.name != ours.name or not theirs.place
    other_name = theirs.name if is_told_apart else f"{theirs.name} ({theirs.place})"
    if names := different_records(ours.provenance.records, theirs.provenance.records):
        raise UserError(
            f"{ours.name} and {other_name} were evaluated on different records of "
            f"{' and '.join(names)}; evaluate both models on the same prepared dataset."
        )
    others = {each.name: each for each in theirs.comparable}
    found: dict[str, Difference] = {}
    for each in ours.comparable:
        if other := others.get(each.name):
            found |= compare_means(each.repeats, other.repeats, each.samples)
            found |= _compare_benchmark(each, other, samples=ours.samples, seed=ours.seed)
    return Differences(found, name=ours.name, other=other_name)


def check_comparable(ours: Mapping[str, str], theirs: "Evaluation") -> None:
    """Raises an error if an evaluation cannot be compared with another model's.

    Args:
      ours: the hash of its labels by the name of the result.
      theirs: the other evaluation.
    """
    if not have_same_labels(ours, theirs.hashes):
        raise UserError(
            "Paired differences need values of single queries, images or pools on the same labels, "
            f"and those of {theirs.name} are {theirs.hashes} against {dict(ours)}: evaluate both "
            "models on the same benchmarks, annotations and split."
        )


def have_same_labels(ours: Mapping[str, str], theirs: Mapping[str, str]) -> bool:
    """Returns whether evaluations have common results, and all of them the same hash of labels."""
    common = ours.keys() & theirs.keys()
    return bool(common) and all(ours[name] == theirs[name] for name in common)


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
    aligned = {
        name: found
        for name, each in ours.directions.items()
        if name in theirs.directions
        and (found := _align(f"{ours.name}/{name}", each, theirs.directions[name]))
    }
    one = dataclasses.replace(ours, directions={name: ours.directions[name] for name in aligned})
    other = dataclasses.replace(theirs, directions=aligned)
    drawn, others = (name_values(x.name, resample(x, **bootstrap)) for x in (one, other))
    limits = {tag: compute_interval(x - others[tag]) for tag, x in drawn.items() if tag in others}
    for name in ours.correlations.keys() & theirs.correlations.keys():
        limits[f"{ours.name}/{name}/spearman"] = compute_difference_interval(
            ours.correlations[name], theirs.correlations[name]
        )
    values, other_values = compute_values(one), compute_values(other)
    return {
        tag: Difference(values[tag], other_values[tag], *limits[tag])
        for tag in values
        if tag in limits
    }


def _align(place: str, ours: DirectionResult, theirs: DirectionResult) -> DirectionResult | None:
    """Their direction in the order of our queries; None if second stages scored other items."""
    scored = [each.rescored.candidates for each in (ours, theirs) if each.rescored]
    if len(set(scored)) > 1:
        logging.warning("%s is not compared: second stages scored %s.", place, " and ".join(scored))
        return None
    rows = Positions("query", theirs.query_ids)(ours.query_ids)
    values = {metric: values[rows] for metric, values in theirs.values.items()}
    rank = None if theirs.rank is None else theirs.rank[rows]
    return dataclasses.replace(theirs, clusters=ours.clusters, values=values, rank=rank)
