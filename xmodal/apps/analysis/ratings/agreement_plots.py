"""Figures of agreement: scores with cosines, among raters, and two ratings of one pair."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from xmodal.apps.analysis.canvas import GRAY, LIGHT, color, label, new_figure, strip, to_png
from xmodal.apps.analysis.ratings.rated_pairs import RatedPairs
from xmodal.apps.analysis.ratings.score_statistics import (
    methods_of,
    name_of,
    rated_twice,
    rater_deviations,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_CELLS = 50  # cells of a density along each side
_FEWEST = 20  # pairs needed for a point of a curve
_MOST_PLOTS = 4  # methods of one rating that get their own plot


def draw_cosines(
    rated: Mapping[str, RatedPairs],
    cosines: Mapping[str, np.ndarray],
    *,
    by: str,
    title: str = "",
) -> bytes:
    """Scores against cosines, as a density for every sampling method, with the mean score.

    Args:
      rated: rating -> its pairs.
      cosines: rating -> cosine of every pair, float [P], NaN where it is not known.
      by: name of the vectors, for the axis.
      title: printed above.

    Returns:
      The bytes of a PNG; empty if no cosine is known.
    """
    plots = []
    for rating, values in cosines.items():
        known = np.isfinite(values)
        methods = [(name, rows & known) for name, rows in methods_of(rated[rating])]
        if len(methods) > 1 + _MOST_PLOTS:
            methods = methods[:1]
        plots.append([(rating, name, rows) for name, rows in methods if rows.sum() > 2])
    plots = [row for row in plots if row]
    if not plots:
        return b""
    widest = max(map(len, plots))
    figure = new_figure(3.5 * widest, 0.5 + 3.3 * len(plots))
    figure.suptitle(title, fontsize=12, parse_math=False)
    grid = figure.subplots(len(plots), widest, squeeze=False, sharex="row", sharey="row")
    for axes in grid.ravel():
        axes.set_axis_off()
    for plotted, row in zip(grid, plots, strict=True):
        for axes, (rating, method, rows) in zip(plotted, row, strict=False):
            axes.set_axis_on()
            scores = rated[rating].scores[rows].astype(np.float64)
            _draw_density(axes, cosines[rating][rows].astype(np.float64), scores)
            rho = spearman(cosines[rating][rows], scores)
            heading = f"{name_of(rating, method)}\n{rows.sum():,} pairs, Spearman {rho:.3f}"
            label(axes, title=heading, x=f"cosine of {by}", y="score")
    return to_png(figure)


def spearman(left: np.ndarray, right: np.ndarray) -> float:
    """Spearman's correlation, NaN if one side is constant."""
    from scipy.stats import spearmanr

    if np.ptp(left) == 0 or np.ptp(right) == 0:  # SciPy would warn.
        return float("nan")
    return float(spearmanr(left, right).statistic)


def _draw_density(axes: "Axes", x: np.ndarray, y: np.ndarray) -> None:
    from matplotlib.colors import LogNorm

    counts, x_edges, y_edges = np.histogram2d(x, y, bins=_CELLS)
    axes.pcolormesh(
        x_edges,
        y_edges,
        np.where(counts > 0, counts, np.nan).T,
        norm=LogNorm(1, max(2, counts.max())),
        cmap="Blues",
    )
    _draw_curve(axes, x, y, x_edges, fewest=_FEWEST, shade="#c4572a")
    strip(axes, keep=("bottom", "left"))


def _draw_curve(
    axes: "Axes", x: np.ndarray, y: np.ndarray, edges: np.ndarray, *, fewest: int, shade: str
) -> None:
    """The mean of y over x, where there are enough pairs."""
    cell = np.clip(np.digitize(x, edges) - 1, 0, len(edges) - 2)
    number = np.bincount(cell, minlength=len(edges) - 1)
    total = np.bincount(cell, y, minlength=len(edges) - 1)
    enough = number >= fewest
    middles = (edges[1:] + edges[:-1]) / 2
    axes.plot(middles[enough], total[enough] / number[enough], color=shade, linewidth=1.6)


def draw_rater_spread(rated: Mapping[str, RatedPairs], *, title: str = "") -> bytes:
    """The spread of the raters of a pair: its distribution for every rating, and over the scale.

    Returns:
      The bytes of a PNG; empty if no rating has raters.
    """
    spreads = {
        rating: deviations
        for rating, pairs in rated.items()
        if (deviations := rater_deviations(pairs)) is not None
    }
    if not spreads:
        return b""
    figure = new_figure(9, 3.6)
    figure.suptitle(title, fontsize=12, parse_math=False)
    left, right = figure.subplots(1, 2)
    highest = max(np.nanmax(values) for values in spreads.values())
    edges = np.linspace(0, max(highest, 0.1), 31)
    for place, rating in enumerate(rated):
        if rating not in spreads:
            continue
        known = np.isfinite(spreads[rating])
        values, scores = spreads[rating][known], rated[rating].scores[known].astype(np.float64)
        counts, _ = np.histogram(values, edges)
        name = f"{rating}: {len(values):,} pairs, mean {values.mean():.2f}"
        left.stairs(counts / len(values), edges, color=color(place), linewidth=1.6, label=name)
        span = np.linspace(scores.min(), scores.max() + 1e-9, 21)
        _draw_curve(right, scores, values, span, fewest=1, shade=color(place))
    for text in left.legend(fontsize=8, frameon=False).get_texts():
        text.set_parse_math(False)
    left.set_yticks([])
    strip(left)
    strip(right, keep=("bottom", "left"))
    right.set_ylim(bottom=0)
    label(left, title="spread of the raters of a pair", x="standard deviation (R - 1)")
    label(right, title="where on the scale", x="score", y="mean standard deviation")
    return to_png(figure)


def draw_rated_twice(rated: Mapping[str, RatedPairs], *, title: str = "") -> bytes:
    """Pairs that were rated in both orders: one score against the other, and their difference.

    If scores of single raters are unknown, this measures the reliability of a score.

    Returns:
      The bytes of a PNG; empty if no pair was rated twice.
    """
    twice = {
        rating: found for rating, pairs in rated.items() if len(found := rated_twice(pairs)) > 2
    }
    if not twice:
        return b""
    figure = new_figure(8, 0.5 + 3.3 * len(twice))
    figure.suptitle(title, fontsize=12, parse_math=False)
    grid = figure.subplots(len(twice), 2, squeeze=False)
    for (left, right), (rating, scores) in zip(grid, twice.items(), strict=True):
        a, b = scores.astype(np.float64).T
        left.plot([scores.min(), scores.max()], [scores.min(), scores.max()], color=LIGHT)
        left.scatter(a, b, s=4, color=GRAY, alpha=0.35, linewidths=0)
        strip(left, keep=("bottom", "left"))
        heading = f"{rating}: {len(a):,} pairs rated in both orders\nSpearman {spearman(a, b):.3f}"
        label(left, title=heading, x="score in one order", y="in the other")
        difference = a - b
        right.hist(difference, bins=41, color=GRAY)
        right.set_yticks([])
        strip(right)
        error = np.sqrt(np.mean(difference**2) / 2)
        label(right, title=f"standard error of one score {error:.2f}", x="difference")
    return to_png(figure)
