"""Reports a comparison of metrics: a matrix, a table to read, a bump chart."""

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xmodal.apps.analysis.agreement.metric_tables import Models
from xmodal.apps.analysis.agreement.rank_correlation import (
    Agreement,
    kendall_tau_b,
    ranks_of_models,
)
from xmodal.apps.analysis.canvas import GRAY, new_figure, to_png
from xmodal.core.result_files import format_json, write_files
from xmodal.core.text_table import Rows, format_document
from xmodal.evals.reports.published import eccv_table_5

# Metric -> model -> rank, as `ranks_of_models` returns them.
Ranks = Mapping[str, Mapping[str, float]]


def write_agreement(
    models: Models, metrics: Sequence[str], output: str, *, notes: Sequence[str] = ()
) -> str:
    """Writes `agreement.json`, `.md` and `.tex`, and `bump_chart.png`, or none of them.

    Args:
      models: model -> tag -> number.
      metrics: tags, in the order of the tables and of the chart.
      output: folder, created if it does not exist.
      notes: sentences to put before those on the agreement.

    Returns:
      The Markdown.
    """
    agreement = kendall_tau_b(models, metrics)
    agreement = dataclasses.replace(agreement, notes=(*notes, *agreement.notes))
    ranks = ranks_of_models(models, metrics)
    text = format_agreement(agreement, ranks)
    found = {
        "metrics": list(agreement.metrics),
        "tau_b": agreement.tau.tolist(),
        "models": agreement.counts.tolist(),
        "notes": list(agreement.notes),
        "ranks": ranks,
    }
    ranked = {model for column in ranks.values() for model in column}
    chart = draw_bump_chart(ranks, title=f"Ranks of {len(ranked)} models")
    write_files(
        output,
        {
            "agreement.json": format_json(found),
            "agreement.md": text,
            "agreement.tex": format_agreement(agreement, ranks, "latex"),
            "bump_chart.png": chart,
        },
    )
    return text


def format_agreement(agreement: Agreement, ranks: Ranks, format: str = "markdown") -> str:
    """Formats tau-b, the paper's values for metrics in table 5, and the ranks.

    Columns are labeled with row numbers, since tags are long. Markdown is aligned so that it is
    also readable in a terminal; see `text_table.format_document` for "latex".
    """
    metrics, counts = agreement.metrics, agreement.counts
    least, most = counts.min(), counts.max()
    over = f"{most}" if least == most else f"{least} to {most}"
    sections: list[str | Rows] = [
        "# Agreement between metrics",
        f"Kendall tau-b between the rankings of {over} models: 1 where two metrics order them "
        "alike, 0 where one says nothing of the other.",
        _make_matrix(metrics, agreement.tau, "{:.2f}"),
    ]
    if least != most:
        sections += [
            "Not every model has every metric. Models that have both:",
            _make_matrix(metrics, counts, "{}", diagonal=True),
        ]
    if agreement.notes:
        sections.append("\n".join(f"- {note}" for note in agreement.notes))
    table = eccv_table_5()
    printed = np.array([[table.get((a, b), np.nan) for b in metrics] for a in metrics])
    if not np.all(np.isnan(printed)):
        sections += [
            "## ECCV Caption paper, table 5",
            "As printed, over the paper's 25 models.",
            _make_matrix(metrics, printed, "{:.2f}"),
        ]
    sections += ["## Ranks of the models", "1 is best; ties share a rank.", _make_ranks(ranks)]
    return format_document(sections, format)


def _make_matrix(
    metrics: Sequence[str], values: np.ndarray, form: str, *, diagonal: bool = False
) -> Rows:
    """The upper triangle of a symmetric matrix; a dash where it is undefined."""
    rows = [["", *(f"({j + 1})" for j in range(len(metrics)))]]
    for i, metric in enumerate(metrics):
        cells = ["-" if np.isnan(value) else form.format(value) for value in values[i]]
        first = i if diagonal else i + 1
        rows.append([f"({i + 1}) {metric}", *[""] * first, *cells[first:]])
    return rows


def _make_ranks(ranks: Ranks) -> Rows:
    models = list(dict.fromkeys(model for column in ranks.values() for model in column))
    first = next(iter(ranks.values()))
    models.sort(key=lambda model: first.get(model, math.inf))
    rows = [["", *(f"({j + 1})" for j in range(len(ranks)))]]
    for model in models:
        places = (column.get(model) for column in ranks.values())
        rows.append([model, *("-" if place is None else f"{place:g}" for place in places)])
    return rows


def draw_bump_chart(ranks: Ranks, *, title: str = "") -> bytes:
    """Returns a PNG with a line per model over the metrics, the best model on top.

    Colors follow the order by the first metric. Tied models are drawn below each other in the order
    of the metric before, marked with the rank they share; a line is interrupted where its model
    lacks the metric.

    Args:
      ranks: metric -> model -> rank, metrics from left to right.
      title: printed above.
    """
    from matplotlib import colormaps

    columns: list[dict[str, int]] = []
    for column in ranks.values():
        before = columns[-1] if columns else {}
        order = sorted(column, key=lambda model: (column[model], before.get(model, math.inf)))
        columns.append({model: place for place, model in enumerate(order)})
    models = list(dict.fromkeys(model for column in columns for model in column))
    rows = max(2, *map(len, columns))
    figure = new_figure(1.15 * len(ranks), 0.32 * rows, layout=None)
    axes = figure.add_axes((0, 0, 1, 1))
    for model, shade in zip(models, np.linspace(0.06, 0.94, len(models)), strict=True):
        color = tuple(0.82 * part for part in colormaps["turbo"](shade)[:3])  # Readable on white.
        known = [x for x, column in enumerate(columns) if model in column]
        for x, end in itertools.pairwise(known):
            if end == x + 1:
                axes.plot([x, end], [columns[x][model], columns[end][model]], color=color, lw=2.4)
        for x, rank in ((x, list(ranks.values())[x][model]) for x in known):
            y = columns[x][model]
            axes.plot(x, y, "o", color=color, markersize=15, markeredgecolor="white", zorder=2)
            size = 7.5 if rank % 1 == 0 else 5.5
            middle: Any = {"ha": "center", "va": "center_baseline", "fontweight": "bold"}
            axes.text(x, y, f"{rank:g}", color="white", fontsize=size, zorder=3, **middle)
        for x, side, offset in ((known[0], "right", -12), (known[-1], "left", 12)):
            style: Any = {"textcoords": "offset points", "ha": side, "va": "center_baseline"}
            style |= {"fontsize": 10, "parse_math": False, "color": color}
            axes.annotate(model, (x, columns[x][model]), (offset, 0), **style)
    names = [
        metric.replace("/", "\n")
        + (f"\n({len(column)} models)" if len(column) < len(models) else "")
        for metric, column in ranks.items()
    ]
    axes.set(xlim=(-0.3, len(names) - 0.7), ylim=(rows - 0.4, -0.6), yticks=[])
    axes.set_xticks(range(len(names)), names, fontsize=9, color=GRAY, parse_math=False)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_title(title, fontsize=12, pad=14, parse_math=False)
    return to_png(figure, bbox_inches="tight", pad_inches=0.2)
