"""Charts of a page: bars, lines and matrices, as SVG and HTML that follow the page's colors.

They are drawn by charts.html and styled by page.html. A chart needs no script and no file, and its
description has its numbers as text.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from xmodal.core.page import TEMPLATES

_MOST_TICKS = 5


class Scale:
    """Maps values to positions on an axis.

    Attributes:
      ticks: round values on the axis, at most six.
    """

    def __init__(
        self, values: Iterable[float], start: float, end: float, *, tight: bool = False
    ) -> None:
        """Covers the values that are finite.

        Args:
          values: values to cover.
          start: position of the lowest value.
          end: position of the highest value.
          tight: whether the axis ends at the values, and not at the ticks around them.
        """
        finite = [value for value in values if math.isfinite(value)] or [0.0]
        low, high = min(finite), max(finite)
        high = high if high > low else low + 1
        unit = 10.0 ** math.floor(math.log10((high - low) / _MOST_TICKS))
        step = next(n * unit for n in (1, 2, 5, 10) if high - low <= _MOST_TICKS * n * unit)
        first, last = math.floor(low / step), math.ceil(high / step)
        self.ticks = [round(n * step, 12) for n in range(first, last + 1)]
        if tight:
            self.ticks = [tick for tick in self.ticks if low <= tick <= high]
        else:
            low, high = self.ticks[0], self.ticks[-1]
        self._low, self._start, self._unit = low, start, (end - start) / (high - low)

    def __call__(self, value: float) -> float:
        """Returns the position of a value."""
        return round(self._start + (value - self._low) * self._unit, 2)


class Chart:
    """A chart; `to_html` draws it."""

    title: str

    def to_html(self) -> str:
        """Returns a `<figure>`."""
        template = TEMPLATES.get_template("charts.html")
        return template.render(chart=self, kind=type(self).__name__)


@dataclasses.dataclass(frozen=True)
class Bar:
    """A value with its interval `low` to `high` and the value of chance, NaN for none.

    `color` is a number below 5; 4 is gray.
    """

    label: str
    value: float
    low: float = math.nan
    high: float = math.nan
    chance: float = math.nan
    color: int = 0


@dataclasses.dataclass(frozen=True)
class Bars(Chart):
    """Horizontal bars from zero, one below the other.

    Attributes:
      title: heads the chart.
      bars: the bars.
      note: how to read them.
      digits: digits after the point of their values.
    """

    title: str
    bars: Sequence[Bar]
    note: str = ""
    digits: int = 1

    @property
    def scale(self) -> Scale:
        """The horizontal axis, in units of the drawing."""
        ends = (x for bar in self.bars for x in (bar.value, bar.low, bar.high, bar.chance))
        return Scale([0.0, *ends], 130, 314)


@dataclasses.dataclass(frozen=True)
class Lines(Chart):
    """Lines over one axis.

    Attributes:
      title: heads the chart.
      series: name -> points (x, y).
      x_title: what the horizontal axis is.
      x_labels: x -> label of its tick; by default, ticks are numbers.
    """

    title: str
    series: Mapping[str, Sequence[tuple[float, float]]]
    x_title: str
    x_labels: Mapping[float, str] = dataclasses.field(default_factory=dict)

    @property
    def scales(self) -> tuple[Scale, Scale]:
        """The horizontal and the vertical axis, in units of the drawing."""
        points = [point for each in self.series.values() for point in each]
        x, y = zip(*points, strict=True) if points else ((), ())
        return Scale(x, 52, 346, tight=True), Scale(y, 180, 10)


@dataclasses.dataclass(frozen=True)
class Matrix(Chart):
    """A table of counts int [N, N], colored by the share of the row.

    `rows` and `columns` say what these are.
    """

    title: str
    labels: Sequence[str]
    counts: np.ndarray
    rows: str
    columns: str


def histogram_line(edges: ArrayLike, heights: ArrayLike) -> list[tuple[float, float]]:
    """Returns the outline of a histogram: heights [N] between edges [N + 1]."""
    x, y = np.repeat(edges, 2), np.repeat(heights, 2)
    return list(zip(x.tolist(), [0.0, *y.tolist(), 0.0], strict=True))
