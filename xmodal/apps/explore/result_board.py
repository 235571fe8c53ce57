"""Measured and published results as one board: its cells, its tables and its page."""

import dataclasses
import functools
import json
import math
from collections.abc import Mapping, Sequence

import jinja2

from xmodal.apps.analysis.agreement.metric_choice import choose_metrics
from xmodal.apps.analysis.agreement.rank_correlation import kendall_tau_b
from xmodal.apps.explore.compare import Comparison
from xmodal.core.errors import UserError
from xmodal.core.page import Group, Page
from xmodal.core.result_files import csv_text
from xmodal.core.text_table import Bold, format_document
from xmodal.evals.reports.metrics import lower_is_better

_COLUMNS = ("model", "metric", "value", "low", "high", "best_rank", "worst_rank", "published")
_HOW_TO_READ = (
    "Values have 95 % intervals. A model's rank is given as an interval from 1 plus the number of "
    "models separably better to the number of models not separably worse, by paired differences "
    "where results by query are stored and else by intervals that do not overlap. Bold: the best "
    "model and all that are not separable from it. Intervals leave out the variance between "
    "training seeds."
)


@dataclasses.dataclass(frozen=True)
class Cell:
    """A metric of a model.

    Attributes:
      tag: the metric.
      value: its value; NaN if the model lacks it.
      limits: 95 % interval; None if unknown.
      ranks: best and worst rank; None for published values.
      best: whether it is the best model's, or not separable from it.
    """

    tag: str
    value: float
    limits: tuple[float, float] | None = None
    ranks: tuple[int, int] | None = None
    best: bool = False

    @property
    def interval(self) -> str:
        """The interval as text; "" without one."""
        return "" if self.limits is None else f"[{self.limits[0]:.2f}, {self.limits[1]:.2f}]"

    @property
    def rank(self) -> str:
        """The rank, or the interval of ranks, as text; "" without one."""
        if self.ranks is None:
            return ""
        low, high = self.ranks
        return f"{low}" if low == high else f"{low} to {high}"


@dataclasses.dataclass(frozen=True)
class ModelRow:
    """The results of one model; `source` is their folder or file."""

    name: str
    cells: Sequence[Cell]
    source: str
    published: bool = False


class ResultBoard:
    """Models x metrics.

    Attributes:
      tags: the metrics.
      rows: the models that have one of the metrics, measured ones first.
    """

    def __init__(
        self,
        comparison: Comparison,
        sources: Mapping[str, str],
        published: Mapping[str, Mapping[str, float]],
        metrics: Sequence[str] | None = None,
    ) -> None:
        """Takes the results of models.

        Args:
          comparison: the measured models.
          sources: measured model -> its folder.
          published: published model -> tag -> number.
          metrics: requested tags, see `choose_metrics`; None for a selection.

        Raises:
          UserError: no model has a tag, there is no common metric, or a name occurs twice.
        """
        if twice := set(published) & set(comparison.metrics):
            raise UserError(f"{sorted(twice)} are both measured and published: write NAME=FOLDER.")
        together = {**comparison.metrics, **published}
        self._measured = comparison.metrics
        self.tags = choose_metrics(together, metrics, at_least=1)
        ranks = {tag: comparison.rank_limits(tag) for tag in self.tags}
        measured = [
            ModelRow(
                name, [_measure(comparison, name, tag, ranks[tag]) for tag in self.tags], folder
            )
            for name, folder in sources.items()
        ]
        quoted = [
            ModelRow(name, [Cell(tag, numbers.get(tag, math.nan)) for tag in self.tags], "", True)
            for name, numbers in published.items()
        ]
        rows = (*measured, *quoted)
        self.rows = [row for row in rows if any(not math.isnan(cell.value) for cell in row.cells)]

    def document(self, format: str) -> str:
        """Returns the tables of values and of ranks; `format` is "markdown" or "latex"."""
        values, ranks = ([["Model", *self.tags]] for _ in range(2))
        for row in self.rows:
            name = f"{row.name} (published)" if row.published else row.name
            texts = [(f"{_format(cell)} {cell.interval}".strip(), cell) for cell in row.cells]
            values.append([name, *(Bold(text) if cell.best else text for text, cell in texts)])
            if not row.published:
                ranks.append([name, *(cell.rank or "-" for cell in row.cells)])
        parts = ["# Board", "## Values", values, "## Ranks", ranks, _HOW_TO_READ]
        return format_document(parts, format)

    def to_csv(self) -> str:
        """Returns a line per model and metric, with intervals and ranks."""
        lines: list[Sequence[object]] = [_COLUMNS]
        for row in self.rows:
            for cell in row.cells:
                if not math.isnan(cell.value):
                    ends = (*(cell.limits or ("", "")), *(cell.ranks or ("", "")))
                    lines.append([row.name, cell.tag, cell.value, *ends, int(row.published)])
        return csv_text(lines)

    def page(self, groups: Sequence[Group] = ()) -> Page:
        """Returns the page: the table, two metrics against each other, and a card per model."""
        rows = [
            {
                "name": row.name,
                "published": row.published,
                "source": row.source,
                "cells": [_show(cell) for cell in row.cells],
            }
            for row in self.rows
        ]
        columns = [{"tag": tag, "lower": lower_is_better(tag)} for tag in self.tags]
        tau = kendall_tau_b(self._measured, self.tags).tau.tolist()
        known = [[None if math.isnan(each) else each for each in line] for line in tau]
        script = f"const TAU = {json.dumps(known)};\n{_read('board.js')}"
        return Page(
            f"Board of {len(rows)} models",
            groups,
            [_HOW_TO_READ],
            body=_environment().get_template("board.html").render(rows=rows, columns=columns),
            style=_read("board.css"),
            script=script,
        )


def _measure(
    comparison: Comparison, name: str, tag: str, ranks: Mapping[str, tuple[int, int]]
) -> Cell:
    if name not in ranks:
        return Cell(tag, math.nan)
    low, high = comparison.limits(name, tag)
    limits = (low, high) if low < high else None
    best = len(ranks) > 1 and name in comparison.find_best(tag)
    return Cell(tag, comparison.metrics[name][tag], limits, ranks[name], best)


def _format(cell: Cell) -> str:
    return "-" if math.isnan(cell.value) else f"{cell.value:.2f}"


def _show(cell: Cell) -> dict[str, object]:
    is_known = not math.isnan(cell.value)
    note = " ".join(filter(None, (cell.interval, cell.rank and f"rank {cell.rank}")))
    return {
        "tag": cell.tag,
        "value": cell.value if is_known else "",
        "text": _format(cell) if is_known else "",
        "note": note,
        "best": cell.best,
    }


def _read(name: str) -> str:
    loader = _environment().loader
    assert loader is not None
    return loader.get_source(_environment(), name)[0]


@functools.cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("xmodal.apps.explore", "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
