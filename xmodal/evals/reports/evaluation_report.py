"""The report of an evaluation: the papers' tables with our rows, and the underlying counts."""

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence

from xmodal.base.text_table import format_table
from xmodal.evals.boards.definitions import DIRECTIONS, RATING_SIDES
from xmodal.evals.published import (
    ECCV_TABLE_4,
    PUBLISHED,
    PUBLISHED_LABELS,
)
from xmodal.evals.results import RSUM, BoardResult, Numbers, metric_tag

_ARROWS = {"i2t": "I→T", "t2i": "T→I", "t2t": "T→T", "i2i": "I→I"}
_TITLES = {
    "captioned_images": "Own pictures and captions",
    "coco5k": "MS-COCO 5K",
    "coco1k": "MS-COCO 1K, mean of five folds",
    "cxc": "Crisscrossed Captions",
    "cxc_sits_only": "Crisscrossed Captions, positives of SITS only",
    "eccv": "ECCV Caption",
    "pmrp": "Plausible matches, R-Precision",
    "pmrp_zeta0": "Plausible matches of equal categories, R-Precision",
    "pmrp_pcme": "Plausible matches as in PCME, R-Precision",
    "pmrp_pcme_1k": "Plausible matches as in PCME, R-Precision in five folds",
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
_NOT_PUBLISHED = (
    "The items or labels are not those of the published test split, so no published rows are shown."
)
_TABLES = ("i2t", "t2i"), ("t2t", "i2i")
# Columns of the summary, and their tags within a board.
_SUMMARY = {
    **{f"{arrow} R@1": f"{direction}/recall@1" for direction, arrow in _ARROWS.items()},
    RSUM: RSUM,
    "mAP@R": "mean/map@r",
    "PMRP": "mean",
    **{rating.upper(): f"{rating}/spearman" for rating in RATING_SIDES},
}
_COUNTS = ("queries", "gallery", "skipped_queries", "tied_queries")


@dataclasses.dataclass(frozen=True)
class Column:
    """One metric in a table."""

    header: str
    tag: str
    decimals: int = 1


# Table 4 of the ECCV Caption paper: means of both directions. Its CxC column uses the labels of the
# eccv_caption library, and its 1K column is meant to be the mean over folds.
_ECCV_CAPTION_TABLE = (
    Column("ECCV mAP@R", "eccv/mean/map@r", 2),
    Column("R-P", "eccv/mean/r_precision", 2),
    Column("R@1", "eccv/mean/recall@1", 2),
    Column("CxC R@1", "cxc_sits_only/mean/recall@1", 2),
    Column("1K R@1", "coco1k/mean/recall@1", 2),
    Column("5K R@1", "coco5k/mean/recall@1", 2),
    Column("PMRP", "pmrp/mean", 2),
)


def format_report(
    model: str,
    metrics: Mapping[str, float],
    *,
    title: str,
    boards: Sequence[BoardResult] = (),
    numbers: Sequence[Numbers] = (),
    warnings: Sequence[str] = (),
    notes: Sequence[str] = (),
    examples: Sequence[str] = (),
) -> str:
    """Returns a summary, the tables of every board, and the facts behind their numbers.

    The result is Markdown, aligned to be readable in a terminal too.

    Args:
      model: name of our row.
      metrics: metrics by tag; `_low` and `_high` of a tag are its 95 % interval.
      title: heading, naming dataset and split.
      boards: their definitions, labels and missing parts. The papers' rows are shown for boards
        with the published labels.
      numbers: results without boards; each has its own table.
      warnings: shown in bold at the top.
      notes: other facts, below the warnings.
      examples: lines of the last section.
    """
    plain = {tag for each in numbers for tag in each.metrics}
    tags = [tag for tag in metrics if tag not in plain]
    names = list(dict.fromkeys(tag.partition("/")[0] for tag in tags if "/" in tag))
    sections = [f"# {title}", *(f"**{warning}**" for warning in warnings)]
    if names:
        sections.append(_format_summary(model, names, metrics))
    sections += notes
    by_name = {board.name: board for board in boards}
    comparable = {
        name for name, board in by_name.items() if board.label_hash == PUBLISHED_LABELS.get(name)
    }
    for name in names:
        layouts = _board_tables(name, tags)
        if not layouts:
            continue
        if name in PUBLISHED_LABELS and name not in comparable:
            sections += [f"## {name}", _NOT_PUBLISHED]
        else:
            sections.append(f"## {_TITLES[name]} ({name})" if name in _TITLES else f"## {name}")
        if name == "eccv" and _ECCV_CAPTION_TABLE[0].tag in tags:
            columns = [column for column in _ECCV_CAPTION_TABLE if column.tag in tags]
            printed = {
                each: {tag: x for tag, x in row.items() if tag.partition("/")[0] in comparable}
                for each, row in ECCV_TABLE_4.items()
            }
            sections.append(_format_columns("Mean of I→T, T→I", columns, printed, model, metrics))
        printed = PUBLISHED[name] if name in comparable else {}
        sections += [_format_columns(*layout, printed, model, metrics) for layout in layouts]
    for each in numbers:
        sections += [f"## {each.name}", each.definition, _format_numbers(model, each.metrics)]
    facts = []
    for name in dict.fromkeys([*by_name, *names]):
        lines, board = [_format_counts(name, metrics)], by_name.get(name)
        if board is not None:
            lines.insert(0, f"{board.definition} Labels `{board.label_hash}`.".strip())
            lines.append(_reasons(board))
        if any(lines):
            facts += [f"### {name}", *filter(None, lines)]
    if facts:
        sections += ["## Behind the numbers", *facts]
    if examples:
        sections += ["## Examples", "\n".join(examples)]
    return "\n\n".join(sections) + "\n"


def _reasons(board: BoardResult) -> str:
    """The parts that could not be computed, as a list by reason."""
    lacking: dict[str, list[str]] = {}
    for direction, reason in board.skipped.items():
        lacking.setdefault(reason, []).append(direction)
    for direction, result in board.directions.items():
        for metric, reason in result.missing.items():
            lacking.setdefault(reason, []).append(f"{direction} {metric}")
    return "\n".join(
        f"- Without {', '.join(parts)}: {why.rstrip('.')}." for why, parts in lacking.items()
    )


def _board_tables(board: str, tags: Collection[str]) -> list[tuple[str, list[Column]]]:
    """(First header, columns) of a board's tables: between modalities, within, correlations."""
    tables = [("Retrieval", _retrieval_columns(board, directions, tags)) for directions in _TABLES]
    rated = [tag for tag in tags if tag.startswith(f"{board}/") and tag.endswith("/spearman")]
    tables.append(("Spearman x100", [Column(tag.split("/")[1].upper(), tag) for tag in rated]))
    return [table for table in tables if table[1]]


def _retrieval_columns(
    board: str, directions: Sequence[str], tags: Collection[str]
) -> list[Column]:
    # The ECCV Caption paper prints two decimals, since its differences are small.
    decimals = 2 if board == "eccv" or board.startswith("pmrp") else 1
    columns = []
    for direction in directions:
        found = [m for m in _METRICS if metric_tag(board, direction, m) in tags]
        for i, metric in enumerate(found):
            header = f"{_ARROWS[direction]} {_METRICS[metric]}" if i == 0 else _METRICS[metric]
            columns.append(Column(header, metric_tag(board, direction, metric), decimals))
    if directions == _TABLES[0] and f"{board}/{RSUM}" in tags:
        columns.append(Column(RSUM, f"{board}/{RSUM}"))
    return columns


def _format_summary(model: str, boards: Sequence[str], metrics: Mapping[str, float]) -> str:
    """One table of the model's main numbers, a row per board."""
    columns = {
        header: tag
        for header, tag in _SUMMARY.items()
        if any(f"{board}/{tag}" in metrics for board in boards)
    }
    rows = [
        [board, *(_cell(metrics, Column("", f"{board}/{tag}")) for tag in columns.values())]
        for board in boards
    ]
    return format_table([[model, *columns], *(row for row in rows if set(row[1:]) - {"-"})])


def _format_columns(
    head: str,
    columns: Sequence[Column],
    published: Mapping[str, Mapping[str, float]],
    model: str,
    metrics: Mapping[str, float],
) -> str:
    """One table: our row above its intervals, then the published rows with any of the columns."""
    body = [[head, *(column.header for column in columns)]]
    body.append([model, *(_cell(metrics, column) for column in columns)])
    intervals = [_interval(metrics, column) for column in columns]
    if set(intervals) != {"-"}:
        body.append(["  95 % interval", *intervals])
    for name, printed in published.items():
        cells = [_cell(printed, column) for column in _as_printed(printed, columns)]
        if set(cells) != {"-"}:
            body.append([name, *cells])
    return format_table(body)


def _format_counts(board: str, metrics: Mapping[str, float]) -> str:
    """The counts behind the numbers of a board: queries, galleries, ties, pairs."""
    retrieval = [["Behind the ranks", "queries", "gallery", "skipped", "tied"]]
    rated = [["Behind the correlations", "pairs", "pairs per sample"]]
    for direction in DIRECTIONS:
        if f"{board}/{direction}/queries" in metrics:
            counts = [_count(metrics.get(f"{board}/{direction}/{name}")) for name in _COUNTS]
            retrieval.append([_ARROWS[direction], *counts])
    for tag in metrics:
        name, _, rest = tag.partition("/")
        if name == board and rest.endswith("/pairs"):
            counts = [_count(metrics[each]) for each in (tag, f"{tag}_per_sample")]
            rated.append([rest.split("/")[0].upper(), *counts])
    return "\n\n".join(format_table(rows) for rows in (retrieval, rated) if len(rows) > 1)


def _format_numbers(model: str, metrics: Mapping[str, float]) -> str:
    """A table with one row per tag prefix before the last slash and one column per metric."""
    rows: dict[str, dict[str, str]] = {}
    for tag in metrics:
        base, _, end = tag.rpartition("_")
        if end not in ("std", "low", "high") or base not in metrics:
            name, _, metric = tag.rpartition("/")
            rows.setdefault(name, {})[metric] = _format_number(tag, metrics)
    columns = list(dict.fromkeys(metric for cells in rows.values() for metric in cells))
    body = [[name, *(cells.get(metric, "") for metric in columns)] for name, cells in rows.items()]
    return format_table([[model, *columns], *body])


def _format_number(tag: str, metrics: Mapping[str, float]) -> str:
    """A number with its deviation or interval."""
    value = metrics[tag]
    if math.isnan(value):
        return "-"
    if f"{tag}_std" in metrics:
        return f"{value:.6g} ± {metrics[f'{tag}_std']:.3g}"
    low, high = (metrics.get(f"{tag}_{end}", math.nan) for end in ("low", "high"))
    return f"{value:.6g}" if math.isnan(low) else f"{value:.4f} [{low:.3f}, {high:.3f}]"


def _as_printed(metrics: Mapping[str, float], columns: Sequence[Column]) -> list[Column]:
    """Columns, with one decimal if the source of a row has no more."""
    if any(round(metrics[c.tag], 1) != metrics[c.tag] for c in columns if c.tag in metrics):
        return list(columns)
    return [dataclasses.replace(column, decimals=1) for column in columns]


def _count(number: float | None) -> str:
    return "-" if number is None else f"{number:,.0f}"  # Ties in ranked lists are not known.


def _cell(metrics: Mapping[str, float], column: Column) -> str:
    value = metrics.get(column.tag)
    if value is None or math.isnan(value):  # A constant model has no correlation.
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
