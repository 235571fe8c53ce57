"""A figure of the runs of several seeds, for papers."""

from collections.abc import Mapping, Sequence

import numpy as np

from xmodal.apps.analysis.canvas import color, new_figure, to_bytes

_COLUMNS = 4  # Metrics in a row.


def draw_runs(
    runs: Mapping[str, Mapping[str, Sequence[float]]], tags: Sequence[str]
) -> dict[str, bytes]:
    """Returns "svg" and "pdf" -> a file with the means of groups of runs, and a point per run.

    Every metric has a part with a bar per model; its line is the standard deviation of the runs.

    Args:
      runs: model -> tag -> numbers of its runs.
      tags: the metrics.
    """
    columns = min(len(tags), _COLUMNS)
    rows = -(-len(tags) // columns)
    with new_figure(columns * (1.2 + 0.5 * len(runs)), 2.4 * rows) as figure:
        parts = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes, tag in zip(parts, tags, strict=False):
            for place, (name, numbers) in enumerate(runs.items()):
                values = np.array(numbers.get(tag, ()))
                if len(values):
                    axes.bar(place, values.mean(), 0.7, color=color(place), alpha=0.5, label=name)
                    axes.errorbar(
                        place, values.mean(), values.std(ddof=1), color="black", capsize=4
                    )
                    around = place + np.linspace(-0.2, 0.2, len(values))
                    axes.plot(around, values, "o", color=color(place), markersize=4)
            parts_of_tag = tag.rsplit("/", 2)
            axes.set_title("\n".join([*parts_of_tag[:-2], "/".join(parts_of_tag[-2:])]), size=8)
            axes.set_xticks(range(len(runs)), list(runs), rotation=20, ha="right")
        for axes in parts[len(tags) :]:
            axes.remove()
        return {format: to_bytes(figure, format) for format in ("svg", "pdf")}
