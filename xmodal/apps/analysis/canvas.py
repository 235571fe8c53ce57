"""Figures without a display, in the style of the project's charts."""

import contextlib
import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GRAY = "#555555"
LIGHT = "#d8d8d8"
# Colors of ratings and methods by position: readable on white, also for the color-blind.
COLORS = ("#2f6fab", "#c4572a", "#4a8f4f", "#8a5aa8", "#a98317", "#3f9aa3")
_STYLE: Any = {
    "text.parse_math": False,  # Text comes from data.
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10,
    "figure.constrained_layout.use": True,
    "font.size": 9,
    "legend.frameon": False,
    "pdf.fonttype": 42,  # Publishers refuse fonts of type 3.
    "savefig.dpi": 150,
    "svg.hashsalt": "xmodal",
}


@contextlib.contextmanager
def new_figure(width: float, height: float, title: str = "") -> Iterator["Figure"]:
    """An empty figure of a size in inches, to be drawn and saved while the context is open."""
    # The figure is built without pyplot, which has global state and looks for a display.
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(_STYLE):
        figure = Figure(figsize=(width, height))
        if title:
            figure.suptitle(title)
        yield figure


def to_bytes(figure: "Figure", format: str = "png") -> bytes:
    """Returns a file without dates and versions, so that equal figures give equal bytes.

    Args:
      figure: the figure.
      format: "png", "svg" or "pdf".
    """
    names, file = {"png": "Software", "svg": "Date", "pdf": "CreationDate"}, io.BytesIO()
    figure.savefig(file, format=format, metadata={names[format]: None})
    return file.getvalue()


def color(place: int) -> str:
    """Color of the rating or method at this position."""
    return COLORS[place % len(COLORS)]
