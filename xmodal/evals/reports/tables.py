"""Tables in the layouts of the papers, chosen by the metrics given."""

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence

from xmodal.evals.boards.definitions import RETRIEVAL_TASKS
from xmodal.evals.results import metric_tag

ARROWS = {"i2t": "I→T", "t2i": "T→I", "t2t": "T→T", "i2i": "I→I"}
TITLES = {
    "coco5k": "MS-COCO 5K",
    "coco1k": "MS-COCO 1K, mean of five folds",
    "cxc": "Crisscrossed Captions",
    "cxc_sits_only": "Crisscrossed Captions, positives of SITS only",
    "eccv": "ECCV Caption",
    "pmrp": "Plausible matches, R-Precision",
    "pmrp_zeta0": "Plausible matches of equal categories, R-Precision",
    "pmrp_pcme": "Plausible matches as in PCME, R-Precision",
}
_METRICS = {
    "map@r": "mAP@R",
    "r_precision": "R-P",
    "recall@1": "R@1",
    "recall@5": "R@5",
    "recall@10": "R@10",
    "median_rank": "med r",
    "pmrp": "PMRP",
}
_BETWEEN, _WITHIN = ("i2t", "t2i"), ("t2t", "i2i")
_COUNTS = ("queries", "gallery", "skipped_queries", "tied_queries")


@dataclasses.dataclass(frozen=True)
class Column:
    """One metric in a table.

    Attributes:
      header: above it.
      tag: of the metric.
      decimals: printed.
    """

    header: str
    tag: str
    decimals: int = 1


# Table 4 of the ECCV Caption paper: means of both directions. Its CxC column rests on the labels
# of the eccv_caption library, and its 1K column is meant as the mean over folds.
ECCV_CAPTION_TABLE = (
    Column("ECCV mAP@R", "eccv/mean/map@r", 2),
    Column("R-P", "eccv/mean/r_precision", 2),
    Column("R@1", "eccv/mean/recall@1", 2),
    Column("CxC R@1", "cxc_sits_only/mean/recall@1", 2),
    Column("1K R@1", "coco1k/mean/recall@1", 2),
    Column("5K R@1", "coco5k/mean/recall@1", 2),
    Column("PMRP", "pmrp/mean", 2),
)


def board_tables(board: str, tags: Collection[str]) -> list[tuple[str, list[Column]]]:
    """Layouts of one board: retrieval between modalities, within them, and correlations.

    Args:
      board: its name.
      tags: of the metrics that were computed.

    Returns:
      (header of the models' column, columns) of every table that has any.
    """
    tables = [
        ("Retrieval", _retrieval_columns(board, tasks, tags)) for tasks in (_BETWEEN, _WITHIN)
    ]
    rated = [tag for tag in tags if tag.startswith(f"{board}/") and tag.endswith("/spearman")]
    tables.append(("Spearman x100", [Column(tag.split("/")[1].upper(), tag) for tag in rated]))
    return [table for table in tables if table[1]]


def _retrieval_columns(board: str, tasks: Sequence[str], tags: Collection[str]) -> list[Column]:
    # The ECCV Caption paper prints two decimals: its differences are small.
    decimals = 2 if board == "eccv" or board.startswith("pmrp") else 1
    columns = []
    for task in tasks:
        there = [m for m in _METRICS if metric_tag(board, task, m) in tags]
        for i, metric in enumerate(there):
            header = f"{ARROWS[task]} {_METRICS[metric]}" if i == 0 else _METRICS[metric]
            columns.append(Column(header, metric_tag(board, task, metric), decimals))
    return columns


def format_columns(
    head: str,
    columns: Sequence[Column],
    published: Mapping[str, Mapping[str, float]],
    ours: Mapping[str, Mapping[str, float]],
) -> str:
    """Writes one table: the published rows, then each of ours over its 95 % interval.

    Args:
      head: header of the models' column.
      columns: the metrics.
      published: model -> tag -> number, as printed; models with none of the metrics are left out.
      ours: the same of our models, with `_low` and `_high`, if known.
    """
    body = [[head, *(column.header for column in columns)]]
    for model, metrics in published.items():
        cells = [_cell(metrics, column) for column in _as_printed(metrics, columns)]
        if set(cells) != {"-"}:
            body.append([model, *cells])
    for model, metrics in ours.items():
        body.append([model, *(_cell(metrics, column) for column in columns)])
        intervals = [_interval(metrics, column) for column in columns]
        if set(intervals) != {"-"}:
            body.append(["  95 % interval", *intervals])
    return format_table(body)


def format_counts(board: str, ours: Mapping[str, Mapping[str, float]]) -> str:
    """Writes the counts behind the numbers of a board: queries, galleries, ties, pairs."""
    retrieval = [["Behind the ranks", "queries", "gallery", "skipped", "tied"]]
    rated = [["Behind the correlations", "pairs", "pairs per sample"]]
    for model, metrics in ours.items():
        prefix = f"{model} " if len(ours) > 1 else ""
        for task in RETRIEVAL_TASKS:
            if f"{board}/{task}/queries" in metrics:
                counts = [_count(metrics.get(f"{board}/{task}/{name}")) for name in _COUNTS]
                retrieval.append([prefix + ARROWS[task], *counts])
        for tag in metrics:
            name, _, rest = tag.partition("/")
            if name == board and rest.endswith("/pairs"):
                counts = [_count(metrics[each]) for each in (tag, f"{tag}_per_sample")]
                rated.append([prefix + rest.split("/")[0].upper(), *counts])
    return "\n\n".join(format_table(rows) for rows in (retrieval, rated) if len(rows) > 1)


def format_numbers(metrics: Mapping[str, float]) -> str:
    """Writes a table with a row per metric, its deviation behind it where there is one."""
    rows = [["Metric", "value"]]
    for tag, value in metrics.items():
        if tag.endswith("_std") and tag.removesuffix("_std") in metrics:
            continue
        cell = "-" if math.isnan(value) else f"{value:.6g}"
        if f"{tag}_std" in metrics:
            cell += f" ± {metrics[f'{tag}_std']:.3g}"
        rows.append([tag, cell])
    return format_table(rows)


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


def _as_printed(metrics: Mapping[str, float], columns: Sequence[Column]) -> list[Column]:
    """Columns with one decimal where the source of a row has no more."""
    if any(round(metrics[c.tag], 1) != metrics[c.tag] for c in columns if c.tag in metrics):
        return list(columns)
    return [dataclasses.replace(column, decimals=1) for column in columns]


def _count(number: float | None) -> str:
    return "-" if number is None else f"{number:,.0f}"  # ties in ranked lists are not known


def _cell(metrics: Mapping[str, float], column: Column) -> str:
    value = metrics.get(column.tag)
    if value is None or math.isnan(value):  # a constant model has no correlation
        return "-"
    if f"{column.tag}_std" in metrics:
        return f"{value:.{column.decimals}f} ± {metrics[f'{column.tag}_std']:.{column.decimals}f}"
    return f"{value:.{_decimals(column)}f}"


def _interval(metrics: Mapping[str, float], column: Column) -> str:
    low, high = (metrics.get(f"{column.tag}_{end}") for end in ("low", "high"))
    if low is None or high is None or math.isnan(low) or math.isnan(high):
        return "-"
    return f"[{low:.{_decimals(column)}f}, {high:.{_decimals(column)}f}]"


def _decimals(column: Column) -> int:
    return 0 if column.tag.endswith("/median_rank") else column.decimals
