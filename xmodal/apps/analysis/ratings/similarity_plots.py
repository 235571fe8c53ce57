"""Figures of a model's similarities: against human ratings, and of positive and other pairs."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from xmodal.apps.analysis.canvas import GRAY, color, label, new_figure, strip, to_png
from xmodal.apps.analysis.ratings.agreement_plots import spearman

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BINS = 40

# Ratings and similarities of P pairs, or similarities of positive and of other pairs.
Two = tuple[np.ndarray, np.ndarray]


def draw_ratings(rated: Mapping[str, Two], *, title: str = "") -> bytes:
    """Draws similarity against rating for every rating, with the line of best fit.

    Args:
      rated: rating -> ratings and similarities, float [P] each.
      title: printed above.

    Returns:
      The bytes of a PNG.
    """
    figure, grid = _row(len(rated), 3.8, title)
    for place, (axes, (rating, pairs)) in enumerate(zip(grid, rated.items(), strict=True)):
        ratings, similarities = (np.asarray(each, np.float64) for each in pairs)
        axes.scatter(ratings, similarities, s=5, color=color(place), alpha=0.35, linewidths=0)
        heading = f"{rating}: {len(ratings):,} pairs"
        if np.ptp(ratings) > 0 and np.ptp(similarities) > 0:
            slope, height = np.polyfit(ratings, similarities, 1)
            ends = np.array([ratings.min(), ratings.max()])
            axes.plot(ends, slope * ends + height, color="black", linewidth=1.4)
            pearson = np.corrcoef(ratings, similarities)[0, 1]
            heading += f"\nSpearman {spearman(ratings, similarities):.3f}, Pearson {pearson:.3f}"
        strip(axes, keep=("bottom", "left"))
        label(axes, title=heading, x="rating", y="similarity")
    return to_png(figure)


def draw_distributions(scores: Mapping[str, Two], *, title: str = "") -> bytes:
    """Draws the distributions of the similarities of positive and other pairs by direction.

    Args:
      scores: direction -> similarities of positive pairs, float [P], and of others, float [Q].
      title: printed above.

    Returns:
      The bytes of a PNG.
    """
    figure, grid = _row(len(scores), 2.8, title)
    for axes, (direction, pairs) in zip(grid, scores.items(), strict=True):
        edges = np.histogram_bin_edges(np.concatenate(pairs), _BINS)
        for name, values, shade in zip(
            ("positive pairs", "other pairs"), pairs, (color(0), GRAY), strict=True
        ):
            counts, _ = np.histogram(values, edges)
            axes.stairs(
                counts / max(len(values), 1), edges, color=shade, label=name, fill=True, alpha=0.55
            )
        axes.set_yticks([])
        strip(axes)
        label(axes, title=direction, x="similarity")
    grid[0].legend(fontsize=8, frameon=False)
    return to_png(figure)


def _row(count: int, height: float, title: str) -> "tuple[Figure, Sequence[Axes]]":
    """A figure of plots side by side; `height` in inches."""
    figure = new_figure(3.6 * count, height)
    figure.suptitle(title, fontsize=12, parse_math=False)
    return figure, figure.subplots(1, count, squeeze=False)[0]
