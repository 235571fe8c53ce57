"""A figure of the runs of several seeds, for papers."""

from collections.abc import Mapping, Sequence

import numpy as np

from xmodal.apps.analysis.canvas import color, new_figure, to_bytes
from xmodal.evals.reports.results import name_tag

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
        for number, tag in enumerate(tags, 1):
            axes = figure.add_subplot(rows, columns, number)
            for place, numbers in enumerate(runs.values()):
                if values := numbers.get(tag, ()):
                    mean, deviation, shade = np.mean(values), np.std(values, ddof=1), color(place)
                    axes.bar(place, mean, 0.7, yerr=deviation, capsize=4, color=shade, alpha=0.5)
                    around = place + np.linspace(-0.2, 0.2, len(values))
                    axes.plot(around, values, "o", color=shade, markersize=4)
            if not axes.dataLim.height:  # All runs have 0.
                axes.set_ylim(0, 1)
            axes.set_title(name_tag(tag).replace(", ", "\n"), size=8)
            axes.set_xticks(range(len(runs)), list(runs), rotation=20, ha="right")
        figure.supxlabel("mean ± standard deviation of the runs", size=8)
        return {format: to_bytes(figure, format) for format in ("svg", "pdf")}
