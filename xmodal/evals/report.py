"""Metrics as tables in the layout of the Crisscrossed Captions paper, and as files."""

import json
import math
from collections.abc import Mapping, Sequence

from etils import epath

from xmodal.evals.boards import RETRIEVAL_TASKS
from xmodal.evals.published import PUBLISHED, Row
from xmodal.evals.retrieval import RECALL_AT

_ARROWS = {"i2t": "I→T", "t2i": "T→I", "t2t": "T→T", "i2i": "I→I"}
_RETRIEVAL_METRICS = (*(f"recall@{k}" for k in RECALL_AT), "median_rank")
_RETRIEVAL_TABLES = (("i2t", "t2i"), ("t2t", "i2i"))


def format_report(
    rows: Mapping[str, Mapping[str, float]], *, title: str, published: bool = False
) -> str:
    """Writes tables of every board: retrieval between and within modalities, correlations.

    The text is Markdown, aligned so that it also reads well in a terminal.

    Args:
      rows: model name -> metrics as `Evaluator.run` returns them.
      title: heading, naming dataset and split.
      published: put the paper's rows above, on boards that it has.
    """
    sections = [f"# {title}"]
    names = dict.fromkeys(tag.split("/")[0] for metrics in rows.values() for tag in metrics)
    for board in names:
        ours = {model: _board_row(metrics, board) for model, metrics in rows.items()}
        printed = PUBLISHED.get(board, {}) if published else {}
        known = dict.fromkeys(task for row in ours.values() for task in row)
        tables = [[task for task in tasks if task in known] for tasks in _RETRIEVAL_TABLES]
        tables.append([task for task in known if task not in RETRIEVAL_TASKS])
        sections.append(f"## {board}")
        sections += [_format_tasks(tasks, printed, ours) for tasks in tables if tasks]
        sections += [_format_counts(metrics, board, model) for model, metrics in rows.items()]
    return "\n\n".join(sections) + "\n"


def format_table(rows: Sequence[Sequence[str]]) -> str:
    """Aligns cells into a Markdown table; the first row is the header, the first column text."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        [
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(cells)
        ]
        for cells in (list(zip(row, widths, strict=True)) for row in rows)
    ]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join("| " + " | ".join(line) + " |" for line in [lines[0], rule, *lines[1:]])


def write_results(folder: str, metrics: Mapping[str, float], report: str) -> None:
    """Writes `metrics.json` (flat, tag to number, null for what is undefined) and `report.md`."""
    write_json(epath.Path(folder) / "metrics.json", metrics)
    write_text(epath.Path(folder) / "report.md", report)


def write_json(path: epath.PathLike, metrics: Mapping[str, float]) -> None:
    """Writes a flat JSON object; NaN, which JSON lacks, becomes null."""
    plain = {tag: None if math.isnan(value) else value for tag, value in metrics.items()}
    write_text(path, json.dumps(plain, indent=2) + "\n")


def write_text(path: epath.PathLike, text: str) -> None:
    """Writes a file so that it is there whole or not at all."""
    path = epath.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f"{path.name}.tmp"
    temporary.write_text(text)
    temporary.replace(path)


def _board_row(metrics: Mapping[str, float], board: str) -> Row:
    """The tabled numbers of one board: task -> R@1, R@5, R@10, median; or mean, deviation."""
    row = {}
    for tag in metrics:
        name, _, metric = tag.partition("/")
        task, _, metric = metric.partition("/")
        if name != board:
            continue
        if metric == "recall@1":
            row[task] = tuple(metrics[f"{board}/{task}/{m}"] for m in _RETRIEVAL_METRICS)
        if metric == "spearman":
            row[task] = (metrics[tag], metrics[f"{tag}_std"])
    return row


def _format_tasks(tasks: Sequence[str], printed: Mapping[str, Row], ours: Mapping[str, Row]) -> str:
    retrieval = tasks[0] in RETRIEVAL_TASKS
    header = ["Retrieval" if retrieval else "Spearman x100"]
    for task in tasks:
        if retrieval:
            header += [f"{_ARROWS[task]} R@1", *(f"R@{k}" for k in RECALL_AT[1:]), "med r"]
        else:
            header.append(task.upper())
    body = []
    for model, row in [*printed.items(), *ours.items()]:
        if not set(tasks) & set(row):
            continue
        cells = [model]
        for task in tasks:
            values = row.get(task)
            if not retrieval:
                # A constant model has no correlation (NaN).
                defined = values is not None and not math.isnan(values[0])
                cells.append(f"{values[0]:.1f} ± {values[1]:.1f}" if defined else "-")
            elif values is None:
                cells += ["-"] * len(_RETRIEVAL_METRICS)
            else:
                *recalls, median = values
                cells += [f"{recall:.1f}" for recall in recalls]
                cells.append("-" if median is None else f"{median:.0f}")
        body.append(cells)
    return format_table([header, *body])


def _format_counts(metrics: Mapping[str, float], board: str, model: str) -> str:
    """What stands behind the numbers: queries, those skipped and tied, gallery sizes."""
    parts = []
    for task, arrow in _ARROWS.items():
        prefix = f"{board}/{task}"
        if f"{prefix}/queries" in metrics:
            queries, gallery, skipped, tied = (
                f"{metrics[f'{prefix}/{name}']:,.0f}"
                for name in ("queries", "gallery", "skipped_queries", "tied_queries")
            )
            parts.append(
                f"{arrow} {queries} in {gallery} ({skipped} without positive, {tied} tied)"
            )
    return f"Queries of {model}: " + "; ".join(parts) + "."
