"""Figures without a display, in the style of the project's charts."""

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GRAY = "#555555"
LIGHT = "#d8d8d8"
# Tasks and methods by their place: dark enough to be read on white, also by the color-blind.
COLORS = ("#2f6fab", "#c4572a", "#4a8f4f", "#8a5aa8", "#a98317", "#3f9aa3")


def new_figure(
    width: float, height: float, *, layout: Literal["constrained"] | None = "constrained"
) -> "Figure":
    """Returns an empty figure of a size in inches; see matplotlib for layouts."""
    # The figure is built without pyplot: no global state, and no display is looked for.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), facecolor="white", layout=layout)
    FigureCanvasAgg(figure)
    return figure


def to_png(figure: "Figure", **options: Any) -> bytes:
    """Returns the bytes of a PNG without metadata: same figure, same bytes.

    Args:
      figure: the figure.
      **options: see `Figure.savefig`.
    """
    png = io.BytesIO()
    figure.savefig(png, format="png", dpi=150, metadata={"Software": None}, **options)
    return png.getvalue()


def strip(axes: "Axes", *, keep: Sequence[str] = ("bottom",)) -> None:
    """Leaves only some sides of the frame."""
    for name, side in axes.spines.items():
        side.set_visible(name in keep)
        side.set_color(GRAY)
    axes.tick_params(colors=GRAY, labelsize=8, length=3 if "bottom" in keep else 0)


def label(axes: "Axes", *, title: str = "", x: str = "", y: str = "") -> None:
    """Names a plot and its axes; texts come from data and are not read as formulas."""
    if title:
        axes.set_title(title, fontsize=10, parse_math=False)
    axes.set_xlabel(x, fontsize=9, color=GRAY, parse_math=False)
    axes.set_ylabel(y, fontsize=9, color=GRAY, parse_math=False)


def color(place: int) -> str:
    """Color of the task or method at this place."""
    return COLORS[place % len(COLORS)]
