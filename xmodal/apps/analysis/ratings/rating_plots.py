"""Figures of rated pairs and of a model's similarities.

Every function returns the bytes of a PNG, empty without data for it. `rated` maps a rating to its
pairs; the title is printed above.
"""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from xmodal.apps.analysis.canvas import GRAY, LIGHT, color, new_figure, to_bytes
from xmodal.apps.analysis.ratings.rated_pairs import RatedPairs
from xmodal.apps.analysis.ratings.score_statistics import (
    methods_of,
    name_of,
    positives_per_item,
    rater_deviations,
    spearman,
    summarize,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BINS = 25
_WIDEST_TAIL = 20  # largest number of positives per item with its own bar
_CELLS = 50  # cells of a density along each side
_FEWEST = 20  # pairs needed for a point of a curve
_MOST_PLOTS = 4  # methods of one rating that get their own plot
Rated = Mapping[str, RatedPairs]
# Ratings and similarities of P pairs, or similarities of positive and of other pairs.
Two = tuple[np.ndarray, np.ndarray]


def draw_distributions(rated: Rated, *, title: str = "") -> bytes:
    """Draws the scores of every rating, one row for each sampling method."""
    methods = {rating: methods_of(pairs) for rating, pairs in rated.items()}
    most = max(map(len, methods.values()))
    with new_figure(3.6 * len(rated), 0.9 + 0.75 * most, title) as figure:
        grid = figure.subplots(most, len(rated), squeeze=False)
        for axes in grid.ravel():
            axes.set_axis_off()
        for column, (rating, pairs) in enumerate(rated.items()):
            scale = math.floor(pairs.scores.min()), math.ceil(pairs.scores.max())
            for row, (method, chosen) in enumerate(methods[rating].items()):
                axes, scores = grid[row, column], pairs.scores[chosen].astype(np.float64)
                axes.set_axis_on()
                axes.hist(scores, bins=_BINS, range=scale, color=GRAY if row else color(column),
                          rwidth=0.9)  # fmt: skip
                axes.axvline(scores.mean(), color="black", linewidth=0.8, linestyle=":")
                name = method if row else name_of(rating, method)
                heading = f"{name}: {len(scores):,} pairs, mean {scores.mean():.2f}"
                axes.set_title(heading, fontsize=8, loc="left", pad=2)
                axes.set_yticks([])
        figure.supxlabel("score", fontsize=9, color=GRAY)
        return to_bytes(figure)


def draw_positives(rated: Rated, positive: Mapping[str, float], *, title: str = "") -> bytes:
    """Draws the positive pairs of every sampling method, and the positives of the items.

    `positive` maps a rating to the score from which a pair is positive; others are left out.
    """
    counted = {rating: pairs for rating, pairs in rated.items() if rating in positive}
    if not counted:
        return b""
    summaries = summarize(counted, positive)
    shades = {rating: color(place) for place, rating in enumerate(rated)}
    per_item = [
        (rating, kind, counts)
        for rating, pairs in counted.items()
        for kind, counts in positives_per_item(pairs, positive[rating]).items()
    ]
    height = 1.2 + max(0.34 * len(summaries), 1.1 * len(per_item), 1.5)
    with new_figure(10, height, title) as figure:
        left, right = figure.subfigures(1, 2, squeeze=False, width_ratios=(1.25, 1))[0]
        axes = left.subplots()
        names = [name_of(f"{each.rating} ≥ {each.threshold:g}", each.method) for each in summaries]
        axes.barh(names, [each.pairs for each in summaries], color=LIGHT)
        bars = axes.barh(names, [each.positives for each in summaries],
                         color=[shades[each.rating] for each in summaries])  # fmt: skip
        texts = [f"{x.positives:,} of {x.pairs:,} ({x.positives / x.pairs:.0%})" for x in summaries]
        axes.bar_label(bars, texts, padding=4, fontsize=8, color=GRAY)
        axes.invert_yaxis()
        axes.set(title="positive pairs", xticks=[])
        rows = right.subplots(len(per_item), 1, squeeze=False)[:, 0] if per_item else ()
        for axes, (rating, kind, counts) in zip(rows, per_item, strict=True):
            edges = np.arange(_WIDEST_TAIL + 2) - 0.5
            axes.hist(np.minimum(counts, _WIDEST_TAIL), bins=edges, color=shades[rating])
            mean = f"mean {counts.mean():.2f}, at most {counts.max()}"
            axes.set(title=f"{rating}: positives of a rated {kind}, {mean}", yticks=[])
        return to_bytes(figure)


def draw_cosines(rated: Rated, cosines: Mapping[str, np.ndarray], *, title: str = "") -> bytes:
    """Draws scores against cosines, as a density for every sampling method, with the mean score.

    `cosines` maps a rating to the cosine of every pair, float [P], NaN where it is not known.
    """
    from matplotlib.colors import LogNorm

    plots = []
    for rating, values in cosines.items():
        methods = list(methods_of(rated[rating]).items())
        for name, rows in methods if len(methods) <= 1 + _MOST_PLOTS else methods[:1]:
            x, y = values[rows].astype(np.float64), rated[rating].scores[rows].astype(np.float64)
            known = np.isfinite(x)
            if known.sum() > 2:
                plots.append((name_of(rating, name), x[known], y[known]))
    if not plots:
        return b""
    with new_figure(3.5 * len(plots), 3.8, title) as figure:
        grid = figure.subplots(1, len(plots), squeeze=False)[0]
        for axes, (name, x, y) in zip(grid, plots, strict=True):
            _, edges, _, _ = axes.hist2d(x, y, bins=_CELLS, cmin=1, cmap="Blues", norm=LogNorm())
            _draw_curve(axes, x, y, edges, fewest=_FEWEST, shade=color(1))
            rho = f"{len(x):,} pairs, Spearman {spearman(x, y):.3f}"
            axes.set(title=f"{name}\n{rho}", xlabel="cosine of word counts", ylabel="score")
        return to_bytes(figure)


def _draw_curve(
    axes: "Axes", x: np.ndarray, y: np.ndarray, edges: np.ndarray, *, fewest: int, shade: str
) -> None:
    """Draws the mean of y over cells of x with at least `fewest` points."""
    number, total = np.histogram(x, edges)[0], np.histogram(x, edges, weights=y)[0]
    enough, middles = number >= fewest, (edges[1:] + edges[:-1]) / 2
    axes.plot(middles[enough], total[enough] / number[enough], color=shade, linewidth=1.6)


def draw_rater_spread(rated: Rated, *, title: str = "") -> bytes:
    """Draws the spread of the raters of a pair: its distribution, and its mean over the scale."""
    spreads = {rating: rater_deviations(pairs) for rating, pairs in rated.items()}
    known = {rating: values for rating, values in spreads.items() if values is not None}
    if not known:
        return b""
    with new_figure(9, 3.6, title) as figure:
        left, right = figure.subplots(1, 2)
        edges = np.linspace(0, max(0.1, *map(np.nanmax, known.values())), 31)
        for rating, all_values in known.items():
            rows, shade = np.isfinite(all_values), color(list(rated).index(rating))
            values, scores = all_values[rows], rated[rating].scores[rows].astype(np.float64)
            name = f"{rating}: {len(values):,} pairs, mean {values.mean():.2f}"
            left.hist(values, bins=edges, histtype="step", density=True, color=shade, label=name)
            span = np.linspace(scores.min(), scores.max() + 1e-9, 21)
            _draw_curve(right, scores, values, span, fewest=1, shade=shade)
        left.legend()
        left.set(title="spread of the raters of a pair", xlabel="standard deviation (R - 1)")
        left.set_yticks([])
        right.set(title="where on the scale", xlabel="score", ylabel="mean standard deviation")
        right.set_ylim(bottom=0)
        return to_bytes(figure)


def draw_similarities(rated: Mapping[str, Two], *, title: str = "") -> bytes:
    """Returns a PNG of similarity against rating for every rating, with the line of best fit.

    Args:
      rated: rating -> ratings and similarities, float [P] each.
      title: printed above.
    """
    with new_figure(3.6 * len(rated), 3.8, title) as figure:
        grid = figure.subplots(1, len(rated), squeeze=False)[0]
        for place, (axes, (rating, pairs)) in enumerate(zip(grid, rated.items(), strict=True)):
            x, y = (np.asarray(each, np.float64) for each in pairs)
            axes.scatter(x, y, s=5, color=color(place), alpha=0.35, linewidths=0)
            heading = f"{rating}: {len(x):,} pairs"
            if np.ptp(x) > 0 and np.ptp(y) > 0:
                axes.plot(*np.polynomial.Polynomial.fit(x, y, 1).linspace(2), color="black", lw=1.4)
                pearson = np.corrcoef(x, y)[0, 1]
                heading += f"\nSpearman {spearman(x, y):.3f}, Pearson {pearson:.3f}"
            axes.set(title=heading, xlabel="rating", ylabel="similarity")
        return to_bytes(figure)
