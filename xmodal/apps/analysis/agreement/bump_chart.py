"""Bump chart: how the order of the models changes from metric to metric."""

import itertools
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from xmodal.apps.analysis.canvas import GRAY, new_figure, to_png

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Metric -> model -> rank, as `ranks_of_models` returns them.
Ranks = Mapping[str, Mapping[str, float]]
Color = tuple[float, ...]

_COLUMN_INCHES = 1.15
_ROW_INCHES = 0.32
# Distance from the middle of a marker, in columns, over which lines are horizontal.
_LEVEL = 0.17


def draw_bump_chart(ranks: Ranks, *, title: str = "") -> bytes:
    """Draws one line per model over the metrics, the best model on top.

    Colors follow the order by the first metric, so that lines that move away from their neighbors
    are visible. Tied models are drawn below each other, marked with the rank they share. A line is
    interrupted where its model lacks the metric.

    Args:
      ranks: metric -> model -> rank, metrics from left to right.
      title: printed above.

    Returns:
      The bytes of a PNG.
    """
    places = assign_places(ranks)
    rows = max(2, *(len(column) for column in places.values()))
    figure = new_figure(_COLUMN_INCHES * len(ranks), _ROW_INCHES * rows, layout=None)
    axes = figure.add_axes((0, 0, 1, 1))
    for model, color in _colors(places).items():
        _draw_lines(axes, places, model, color)
        _draw_markers(axes, ranks, places, model, color)
        _draw_names(axes, places, model, color)
    _draw_frame(axes, ranks, rows, title)
    return to_png(figure, bbox_inches="tight", pad_inches=0.2)


def assign_places(ranks: Ranks) -> dict[str, dict[str, int]]:
    """Gives every model its own place in every metric, 0 on top.

    Tied models keep their order in the previous metric, which avoids crossings.
    """
    places: dict[str, dict[str, int]] = {}
    before: dict[str, int] = {}
    for metric, column in ranks.items():
        order = sorted(column, key=lambda model: (column[model], before.get(model, math.inf)))
        before = places[metric] = {model: place for place, model in enumerate(order)}
    return places


def _colors(places: Mapping[str, Mapping[str, int]]) -> dict[str, Color]:
    """Model -> color, spread over the color map in the order of the first metric."""
    from matplotlib import colormaps

    # Models follow the order of the first column; those that it lacks come last.
    models = dict.fromkeys(model for column in places.values() for model in column)
    # Without the nearly black ends of the map, and darkened to be readable on white.
    tints = (colormaps["turbo"](shade) for shade in np.linspace(0.06, 0.94, len(models)))
    return {
        model: tuple(0.82 * part for part in tint[:3])
        for model, tint in zip(models, tints, strict=True)
    }


def _draw_lines(
    axes: "Axes", places: Mapping[str, Mapping[str, int]], model: str, color: Color
) -> None:
    heights = [column.get(model) for column in places.values()]
    for x, (left, right) in enumerate(itertools.pairwise(heights)):
        if left is not None and right is not None:
            line = _curve(x, left, right)
            # A white rim shows which line passes over which.
            for color_of_layer, width in (("white", 4.6), (color, 2.4)):
                axes.plot(*line, color=color_of_layer, linewidth=width, zorder=1)


def _curve(x: int, left: int, right: int) -> tuple[np.ndarray, np.ndarray]:
    """A curve from one marker to the next, horizontal at both ends."""
    way = np.linspace(0, 1, 60)
    bent = way * way * (3 - 2 * way)
    inner = x + _LEVEL + (1 - 2 * _LEVEL) * way
    return (
        np.concatenate([[x], inner, [x + 1]]),
        np.concatenate([[left], left + (right - left) * bent, [right]]),
    )


def _draw_markers(
    axes: "Axes",
    ranks: Ranks,
    places: Mapping[str, Mapping[str, int]],
    model: str,
    color: Color,
) -> None:
    style: dict[str, Any] = {
        "color": "white",
        "fontweight": "bold",
        "ha": "center",
        "va": "center_baseline",
    }
    for x, metric in enumerate(ranks):
        if model in ranks[metric]:
            rank, y = ranks[metric][model], places[metric][model]
            axes.plot(x, y, "o", color=color, markersize=15, markeredgecolor="white", zorder=2)
            size = 7.5 if rank == int(rank) else 5.5
            axes.text(x, y, f"{rank:g}", fontsize=size, zorder=3, **style)


def _draw_names(
    axes: "Axes", places: Mapping[str, Mapping[str, int]], model: str, color: Color
) -> None:
    columns = list(places.values())
    last = len(columns) - 1
    labels = [(0, (-12, 0), "right"), (last, (12, 0), "left")]
    if model not in columns[0] and model not in columns[last]:
        first = next(x for x, column in enumerate(columns) if model in column)
        labels = [(first, (-12, 0), "right")]
    for x, offset, side in labels:
        if model in columns[x]:
            axes.annotate(
                model,
                (x, columns[x][model]),
                offset,
                textcoords="offset points",
                ha=side,
                va="center_baseline",
                color=color,
                fontsize=10,
                parse_math=False,
                zorder=4,
            )


def _draw_frame(axes: "Axes", ranks: Ranks, rows: int, title: str) -> None:
    models = {model for column in ranks.values() for model in column}
    names = []
    for metric, column in ranks.items():
        lacking = f"\n({len(column)} models)" if len(column) < len(models) else ""
        names.append(metric.replace("/", "\n") + lacking)
    axes.set_xlim(-0.3, len(names) - 0.7)
    axes.set_ylim(rows - 0.4, -0.6)  # the best on top
    axes.set_yticks([])
    axes.set_xticks(range(len(names)), names, fontsize=9, color=GRAY, parse_math=False)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    axes.set_title(title, fontsize=12, pad=14, parse_math=False)
