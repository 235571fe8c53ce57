"""Figures of rated pairs and of a model's similarities.

Every function returns the bytes of a PNG, empty without data for it. `rated` maps a rating to its
pairs; the title is printed above.
"""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from xmodal.apps.analysis.canvas import (
    GRAY,
    LIGHT,
    color,
    draw_curve,
    label,
    new_figure,
    strip,
    to_png,
)
from xmodal.apps.analysis.ratings.rated_pairs import RatedPairs
from xmodal.apps.analysis.ratings.score_statistics import (
    methods_of,
    name_of,
    positives_per_item,
    rated_twice,
    rater_deviations,
    spearman,
    summarize,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BINS = 25
_FEW_VALUES = 30  # scores with at most this many values have a bar for each
_WIDEST_TAIL = 20  # largest number of positives per item with its own bar
_CELLS = 50  # cells of a density along each side
_FEWEST = 20  # pairs needed for a point of a curve
_MOST_PLOTS = 4  # methods of one rating that get their own plot
_SIMILARITY_BINS = 40
Rated = Mapping[str, RatedPairs]
# Ratings and similarities of P pairs, or similarities of positive and of other pairs.
Two = tuple[np.ndarray, np.ndarray]


def draw_distributions(rated: Rated, *, title: str = "") -> bytes:
    """Draws the scores of every rating, one row for each sampling method."""
    methods = {rating: list(methods_of(pairs)) for rating, pairs in rated.items()}
    most = max(map(len, methods.values()))
    figure = new_figure(3.6 * len(rated), 0.9 + 0.75 * most, title=title)
    grid = figure.subplots(most, len(rated), squeeze=False)
    for axes in grid.ravel():
        axes.set_axis_off()
    for column, (rating, pairs) in enumerate(rated.items()):
        edges, places = _bins(pairs.scores)
        for row, (method, chosen) in enumerate(methods[rating]):
            axes = grid[row, column]
            axes.set_axis_on()
            scores = pairs.scores[chosen].astype(np.float64)
            heights = np.histogram(scores, edges)[0] / len(scores)
            shade = GRAY if row else color(column)
            axes.bar(places, heights, width=0.9 * np.diff(places).min(), color=shade)
            axes.axvline(scores.mean(), color="black", linewidth=0.8, linestyle=":")
            axes.set(xlim=(edges[0], edges[-1]), yticks=[])
            strip(axes)
            name = method if row else name_of(rating, method)
            heading = f"{name}: {len(scores):,} pairs, mean {scores.mean():.2f}"
            axes.set_title(heading, fontsize=8, loc="left", pad=2, parse_math=False)
    figure.supxlabel("score", fontsize=9, color=GRAY)
    return to_png(figure)


def _bins(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bins over the whole scale: edges [B + 1], and positions of their bars [B].

    A score with few values has a bar at each of them.
    """
    places = np.unique(np.round(scores.astype(np.float64), 4))
    if not 1 < len(places) <= _FEW_VALUES:
        low, high = math.floor(scores.min()), math.ceil(scores.max())
        places = low + max(high - low, 1) / _BINS * np.arange(_BINS + 1)
    gap, middles = np.diff(places).min(), (places[1:] + places[:-1]) / 2
    return np.concatenate([[places[0] - gap / 2], middles, [places[-1] + gap / 2]]), places


def draw_positives(rated: Rated, positive: Mapping[str, float], *, title: str = "") -> bytes:
    """Draws the positive pairs of every sampling method, and the positives of the items.

    `positive` maps a rating to the score from which a pair is positive; others are left out.
    """
    counted = {rating: pairs for rating, pairs in rated.items() if rating in positive}
    if not counted:
        return b""
    summaries = summarize(counted, positive)
    per_item = [
        (rating, kind, counts)
        for rating, pairs in counted.items()
        for kind, counts in positives_per_item(pairs, positive[rating]).items()
    ]
    height = 1.2 + max(0.34 * len(summaries), 1.1 * len(per_item), 1.5)
    figure = new_figure(10, height, title=title)
    left, right = figure.subfigures(1, 2, squeeze=False, width_ratios=(1.25, 1))[0]
    axes = left.subplots()
    places = {rating: place for place, rating in enumerate(rated)}
    for row, each in enumerate(summaries):
        axes.barh(row, each.pairs, color=LIGHT)
        axes.barh(row, each.positives, color=color(places[each.rating]))
        text = f"  {each.positives:,} of {each.pairs:,} ({each.positives / each.pairs:.0%})"
        axes.text(each.pairs, row, text, va="center", fontsize=8, color=GRAY)
    names = [name_of(f"{each.rating} ≥ {each.threshold:g}", each.method) for each in summaries]
    axes.set_yticks(range(len(names)), names, parse_math=False)
    axes.invert_yaxis()
    axes.set(xlim=(0, 1.55 * max(each.pairs for each in summaries)), xticks=[])
    strip(axes, keep=())
    label(axes, title="positive pairs")
    rows = right.subplots(len(per_item), 1, squeeze=False)[:, 0] if per_item else ()
    for axes, (rating, kind, counts) in zip(rows, per_item, strict=True):
        tail = min(int(counts.max()), _WIDEST_TAIL)
        heights = np.bincount(np.minimum(counts, tail), minlength=tail + 1) / len(counts)
        axes.bar(range(tail + 1), heights, color=color(places[rating]))
        ends = [*map(str, range(tail)), f"{tail}+" if counts.max() > tail else f"{tail}"]
        axes.set_xticks(range(tail + 1), ends)
        axes.set_yticks([])
        strip(axes)
        axes.tick_params(labelsize=7)
        mean = f"mean {counts.mean():.2f}, at most {counts.max()}"
        label(axes, title=f"{rating}: positives of a rated {kind}, {mean}")
    return to_png(figure)


def draw_cosines(
    rated: Rated, cosines: Mapping[str, np.ndarray], *, by: str, title: str = ""
) -> bytes:
    """Draws scores against cosines, as a density for every sampling method, with the mean score.

    `cosines` maps a rating to the cosine of every pair, float [P], NaN where it is not known; `by`
    names the vectors, for the axis.
    """
    plots = []
    for rating, values in cosines.items():
        methods = [(name, rows & np.isfinite(values)) for name, rows in methods_of(rated[rating])]
        methods = methods if len(methods) <= 1 + _MOST_PLOTS else methods[:1]
        plots.append([(rating, name, rows) for name, rows in methods if rows.sum() > 2])
    plots = [row for row in plots if row]
    if not plots:
        return b""
    widest = max(map(len, plots))
    figure = new_figure(3.5 * widest, 0.5 + 3.3 * len(plots), title=title)
    grid = figure.subplots(len(plots), widest, squeeze=False, sharex="row", sharey="row")
    for axes in grid.ravel():
        axes.set_axis_off()
    for plotted, row in zip(grid, plots, strict=True):
        for axes, (rating, method, rows) in zip(plotted, row, strict=False):
            axes.set_axis_on()
            x, y = (a[rows].astype(np.float64) for a in (cosines[rating], rated[rating].scores))
            _draw_density(axes, x, y)
            heading = f"{name_of(rating, method)}\n{len(x):,} pairs, Spearman {spearman(x, y):.3f}"
            label(axes, title=heading, x=f"cosine of {by}", y="score")
    return to_png(figure)


def _draw_density(axes: "Axes", x: np.ndarray, y: np.ndarray) -> None:
    from matplotlib.colors import LogNorm

    counts, x_edges, y_edges = np.histogram2d(x, y, bins=_CELLS)
    shown, norm = np.where(counts > 0, counts, np.nan).T, LogNorm(1, max(2, counts.max()))
    axes.pcolormesh(x_edges, y_edges, shown, norm=norm, cmap="Blues")
    draw_curve(axes, x, y, x_edges, fewest=_FEWEST, shade="#c4572a")
    strip(axes, keep=("bottom", "left"))


def draw_rater_spread(rated: Rated, *, title: str = "") -> bytes:
    """Draws the spread of the raters of a pair: its distribution, and its mean over the scale."""
    spreads = {rating: rater_deviations(pairs) for rating, pairs in rated.items()}
    known = {rating: values for rating, values in spreads.items() if values is not None}
    if not known:
        return b""
    figure = new_figure(9, 3.6, title=title)
    left, right = figure.subplots(1, 2)
    edges = np.linspace(0, max(0.1, *map(np.nanmax, known.values())), 31)
    for rating, all_values in known.items():
        rows, shade = np.isfinite(all_values), color(list(rated).index(rating))
        values, scores = all_values[rows], rated[rating].scores[rows].astype(np.float64)
        heights = np.histogram(values, edges)[0] / len(values)
        name = f"{rating}: {len(values):,} pairs, mean {values.mean():.2f}"
        left.stairs(heights, edges, color=shade, linewidth=1.6, label=name)
        span = np.linspace(scores.min(), scores.max() + 1e-9, 21)
        draw_curve(right, scores, values, span, fewest=1, shade=shade)
    for text in left.legend(fontsize=8, frameon=False).get_texts():
        text.set_parse_math(False)
    left.set_yticks([])
    strip(left)
    strip(right, keep=("bottom", "left"))
    right.set_ylim(bottom=0)
    label(left, title="spread of the raters of a pair", x="standard deviation (R - 1)")
    label(right, title="where on the scale", x="score", y="mean standard deviation")
    return to_png(figure)


def draw_rated_twice(rated: Rated, *, title: str = "") -> bytes:
    """Draws both scores of pairs that were rated in both orders, and their difference.

    If scores of single raters are unknown, this measures the reliability of a score.
    """
    found = {rating: rated_twice(pairs) for rating, pairs in rated.items()}
    twice = {rating: scores for rating, scores in found.items() if len(scores) > 2}
    if not twice:
        return b""
    figure = new_figure(8, 0.5 + 3.3 * len(twice), title=title)
    grid = figure.subplots(len(twice), 2, squeeze=False)
    for (left, right), (rating, scores) in zip(grid, twice.items(), strict=True):
        a, b = scores.astype(np.float64).T
        left.plot([scores.min(), scores.max()], [scores.min(), scores.max()], color=LIGHT)
        left.scatter(a, b, s=4, color=GRAY, alpha=0.35, linewidths=0)
        strip(left, keep=("bottom", "left"))
        heading = f"{rating}: {len(a):,} pairs rated in both orders\nSpearman {spearman(a, b):.3f}"
        label(left, title=heading, x="score in one order", y="in the other")
        right.hist(a - b, bins=41, color=GRAY)
        right.set_yticks([])
        strip(right)
        error = np.sqrt(np.mean((a - b) ** 2) / 2)
        label(right, title=f"standard error of one score {error:.2f}", x="difference")
    return to_png(figure)


def draw_similarities(rated: Mapping[str, Two], *, title: str = "") -> bytes:
    """Returns a PNG of similarity against rating for every rating, with the line of best fit.

    Args:
      rated: rating -> ratings and similarities, float [P] each.
      title: printed above.
    """
    figure = new_figure(3.6 * len(rated), 3.8, title=title)
    grid = figure.subplots(1, len(rated), squeeze=False)[0]
    for place, (axes, (rating, pairs)) in enumerate(zip(grid, rated.items(), strict=True)):
        ratings, similarities = (np.asarray(each, np.float64) for each in pairs)
        axes.scatter(ratings, similarities, s=5, color=color(place), alpha=0.35, linewidths=0)
        heading = f"{rating}: {len(ratings):,} pairs"
        if np.ptp(ratings) > 0 and np.ptp(similarities) > 0:
            line = np.polynomial.Polynomial.fit(ratings, similarities, 1)
            axes.plot(*line.linspace(2), color="black", linewidth=1.4)
            pearson = np.corrcoef(ratings, similarities)[0, 1]
            heading += f"\nSpearman {spearman(ratings, similarities):.3f}, Pearson {pearson:.3f}"
        strip(axes, keep=("bottom", "left"))
        label(axes, title=heading, x="rating", y="similarity")
    return to_png(figure)


def draw_similarities_by_label(scores: Mapping[str, Two], *, title: str = "") -> bytes:
    """Returns a PNG of the similarities of positive and other pairs by direction.

    Args:
      scores: direction -> similarities of positive pairs, float [P], and of others, float [Q].
      title: printed above.
    """
    figure = new_figure(3.6 * len(scores), 2.8, title=title)
    grid = figure.subplots(1, len(scores), squeeze=False)[0]
    names = {"positive pairs": color(0), "other pairs": GRAY}
    for axes, (direction, pairs) in zip(grid, scores.items(), strict=True):
        edges = np.histogram_bin_edges(np.concatenate(pairs), _SIMILARITY_BINS)
        for values, (name, shade) in zip(pairs, names.items(), strict=True):
            heights = np.histogram(values, edges)[0] / max(len(values), 1)
            axes.stairs(heights, edges, fill=True, alpha=0.55, label=name, color=shade)
        axes.set_yticks([])
        strip(axes)
        label(axes, title=direction, x="similarity")
    grid[0].legend(fontsize=8, frameon=False)
    return to_png(figure)
