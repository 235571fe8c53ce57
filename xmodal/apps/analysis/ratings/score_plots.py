"""Figures of the scores: their distributions, and how many pairs are positive."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from xmodal.apps.analysis.canvas import GRAY, LIGHT, color, label, new_figure, strip, to_png
from xmodal.apps.analysis.ratings.rated_pairs import RatedPairs
from xmodal.apps.analysis.ratings.score_statistics import (
    methods_of,
    name_of,
    positives_per_item,
    summarize,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BINS = 25
_FEW_VALUES = 30  # scores with at most this many values have a bar for each
_WIDEST_TAIL = 20  # largest number of positives per item with its own bar


def draw_distributions(rated: Mapping[str, RatedPairs], *, title: str = "") -> bytes:
    """The distribution of the scores of every rating, one row for each sampling method.

    Args:
      rated: rating -> its pairs.
      title: printed above.

    Returns:
      The bytes of a PNG.
    """
    rows = {rating: list(methods_of(pairs)) for rating, pairs in rated.items()}
    most = max(map(len, rows.values()))
    figure = new_figure(3.6 * len(rated), 0.9 + 0.75 * most)
    figure.suptitle(title, fontsize=12, parse_math=False)
    grid = figure.subplots(most, len(rated), squeeze=False)
    for column, (rating, pairs) in enumerate(rated.items()):
        bins = _bins(pairs.scores)
        for row, axes in enumerate(grid[:, column]):
            if row >= len(rows[rating]):
                axes.set_axis_off()
                continue
            method, chosen = rows[rating][row]
            scores = pairs.scores[chosen]
            _draw_histogram(axes, scores, bins, color(column) if row == 0 else GRAY)
            name = method if row else name_of(rating, method)
            axes.set_title(
                f"{name}: {len(scores):,} pairs, mean {scores.mean(dtype=np.float64):.2f}",
                fontsize=8,
                loc="left",
                pad=2,
                parse_math=False,
            )
    figure.supxlabel("score", fontsize=9, color=GRAY)
    return to_png(figure)


def _bins(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bins over the whole scale: edges [B + 1], and positions of their bars [B].

    A score with few values has a bar at each of them.
    """
    values = np.unique(np.round(scores.astype(np.float64), 4))
    if 1 < len(values) <= _FEW_VALUES:
        gap = np.diff(values).min()
        middles = (values[1:] + values[:-1]) / 2
        return np.concatenate([[values[0] - gap / 2], middles, [values[-1] + gap / 2]]), values
    low, high = math.floor(scores.min()), math.ceil(scores.max())
    step = max(high - low, 1) / _BINS
    places = low + step * np.arange(_BINS + 1)
    return np.append(places - step / 2, places[-1] + step / 2), places


def _draw_histogram(
    axes: "Axes", scores: np.ndarray, bins: tuple[np.ndarray, np.ndarray], shade: str
) -> None:
    edges, places = bins
    counts, _ = np.histogram(scores, edges)
    axes.bar(places, counts / len(scores), width=0.9 * np.diff(places).min(), color=shade)
    axes.axvline(scores.mean(dtype=np.float64), color="black", linewidth=0.8, linestyle=":")
    axes.set_xlim(edges[0], edges[-1])
    axes.set_yticks([])
    strip(axes)


def draw_positives(
    rated: Mapping[str, RatedPairs], positive: Mapping[str, float], *, title: str = ""
) -> bytes:
    """The number of positive pairs of every sampling method, and of positives of the items.

    Args:
      rated: rating -> its pairs; those without a score in `positive` are left out.
      positive: rating -> score from which a pair is positive.
      title: printed above.

    Returns:
      The bytes of a PNG; empty if no rating has positives.
    """
    counted = {rating: pairs for rating, pairs in rated.items() if rating in positive}
    if not counted:
        return b""
    summaries = [each for each in summarize(counted, positive) if each.positives is not None]
    per_item = [
        (rating, kind, counts)
        for rating, pairs in counted.items()
        for kind, counts in positives_per_item(pairs, positive[rating]).items()
    ]
    figure = new_figure(10, 1.2 + max(0.34 * len(summaries), 1.1 * len(per_item), 1.5))
    figure.suptitle(title, fontsize=12, parse_math=False)
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
    axes.set_xlim(0, 1.55 * max(each.pairs for each in summaries))
    axes.set_xticks([])
    strip(axes, keep=())
    label(axes, title="positive pairs")
    if per_item:
        for axes, (rating, kind, counts) in zip(
            np.ravel(right.subplots(len(per_item), 1, squeeze=False)), per_item, strict=True
        ):
            _draw_per_item(axes, counts, color(places[rating]))
            mean = f"mean {counts.mean():.2f}, at most {counts.max()}"
            label(axes, title=f"{rating}: positives of a rated {kind}, {mean}")
    return to_png(figure)


def _draw_per_item(axes: "Axes", counts: np.ndarray, shade: str) -> None:
    tail = min(int(counts.max()), _WIDEST_TAIL)
    heights = np.bincount(np.minimum(counts, tail), minlength=tail + 1)
    axes.bar(range(tail + 1), heights / len(counts), color=shade)
    names = [str(number) for number in range(tail + 1)]
    if counts.max() > tail:
        names[-1] += "+"
    axes.set_xticks(range(tail + 1), names)
    axes.set_yticks([])
    strip(axes)
    axes.tick_params(labelsize=7)
