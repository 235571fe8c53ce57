"""Figures without a display, in the style of the project's charts."""

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GRAY = "#555555"
LIGHT = "#d8d8d8"
# Colors of ratings and methods by position: readable on white, also for the color-blind.
COLORS = ("#2f6fab", "#c4572a", "#4a8f4f", "#8a5aa8", "#a98317", "#3f9aa3")


def new_figure(
    width: float,
    height: float,
    *,
    layout: Literal["constrained"] | None = "constrained",
    title: str = "",
) -> "Figure":
    """Returns an empty figure of a size in inches; see matplotlib for layouts."""
    # The figure is built without pyplot, which has global state and looks for a display.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), facecolor="white", layout=layout)
    FigureCanvasAgg(figure)
    if title:
        figure.suptitle(title, fontsize=12, parse_math=False)
    return figure


def to_png(figure: "Figure", **options: Any) -> bytes:
    """Returns the bytes of a PNG without metadata, so that equal figures give equal bytes.

    Args:
      figure: the figure.
      **options: see `Figure.savefig`.
    """
    png = io.BytesIO()
    figure.savefig(png, format="png", dpi=150, metadata={"Software": None}, **options)
    return png.getvalue()


def strip(axes: "Axes", *, keep: Sequence[str] = ("bottom",)) -> None:
    """Hides all but some sides of the frame."""
    for name, side in axes.spines.items():
        side.set_visible(name in keep)
        side.set_color(GRAY)
    axes.tick_params(colors=GRAY, labelsize=8, length=3 if "bottom" in keep else 0)


def label(axes: "Axes", *, title: str = "", x: str = "", y: str = "") -> None:
    """Labels a plot and its axes; text comes from data and is not parsed as math."""
    if title:
        axes.set_title(title, fontsize=10, parse_math=False)
    axes.set_xlabel(x, fontsize=9, color=GRAY, parse_math=False)
    axes.set_ylabel(y, fontsize=9, color=GRAY, parse_math=False)


def color(place: int) -> str:
    """Color of the rating or method at this position."""
    return COLORS[place % len(COLORS)]


def draw_curve(
    axes: "Axes", x: np.ndarray, y: np.ndarray, edges: np.ndarray, *, fewest: int, shade: str
) -> None:
    """Draws the mean of y over cells of x with at least `fewest` points."""
    number, _ = np.histogram(x, edges)
    total, _ = np.histogram(x, edges, weights=y)
    enough = number >= fewest
    middles = (edges[1:] + edges[:-1]) / 2
    axes.plot(middles[enough], total[enough] / number[enough], color=shade, linewidth=1.6)
