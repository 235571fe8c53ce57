"""Writes a comparison of metrics: a matrix, a table to read, a chart."""

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np

from xmodal.apps.analysis.agreement.bump_chart import draw_bump_chart
from xmodal.apps.analysis.agreement.rank_correlation import (
    Agreement,
    Models,
    kendall_tau_b,
    ranks_of_models,
)
from xmodal.core.result_files import format_json, write_files
from xmodal.core.text_table import Rows, format_document
from xmodal.evals.reports.published import eccv_table_5


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

    Raises:
      UserError: `output` cannot be written.
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


def format_agreement(
    agreement: Agreement, ranks: Mapping[str, Mapping[str, float]], format: str = "markdown"
) -> str:
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


def _make_ranks(ranks: Mapping[str, Mapping[str, float]]) -> Rows:
    models = list(dict.fromkeys(model for column in ranks.values() for model in column))
    first = next(iter(ranks.values()))
    models.sort(key=lambda model: first.get(model, math.inf))
    rows = [["", *(f"({j + 1})" for j in range(len(ranks)))]]
    for model in models:
        places = (column.get(model) for column in ranks.values())
        rows.append([model, *("-" if place is None else f"{place:g}" for place in places)])
    return rows
