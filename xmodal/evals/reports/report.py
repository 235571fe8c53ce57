"""The report of an evaluation: the papers' tables with our rows in them, and the facts behind."""

from collections.abc import Mapping, Sequence

from xmodal.evals.published import ECCV_BY_DIRECTION, ECCV_TABLE_4, PUBLISHED
from xmodal.evals.reports import tables
from xmodal.evals.results import BoardResult, Numbers, metric_tag

_TUPLE_METRICS = ("recall@1", "recall@5", "recall@10", "median_rank")


def format_report(
    rows: Mapping[str, Mapping[str, float]],
    *,
    title: str,
    published: bool = False,
    boards: Sequence[BoardResult] = (),
    numbers: Sequence[Numbers] = (),
    warnings: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> str:
    """Writes the tables of every board, then the facts behind their numbers.

    The text is Markdown, aligned so that it also reads well in a terminal.

    Args:
      rows: model name -> metrics by tag; `_low` and `_high` of a tag are its 95 % interval.
      title: heading, naming dataset and split.
      published: put the papers' rows above ours, on boards that have any.
      boards: their definitions, labels and missing parts.
      numbers: results without boards; each has a table of its own.
      warnings: in bold at the top.
      notes: other facts, under them.
    """
    sections = [f"# {title}", *(f"**{warning}**" for warning in warnings), *notes]
    plain = {tag for each in numbers for tag in each.metrics}
    tags = dict.fromkeys(tag for metrics in rows.values() for tag in metrics if tag not in plain)
    names = list(dict.fromkeys(tag.partition("/")[0] for tag in tags if "/" in tag))
    for name in names:
        layouts = tables.board_tables(name, tags)
        if not layouts:
            continue
        sections.append(_heading(name))
        if name == "eccv" and tables.ECCV_CAPTION_TABLE[0].tag in tags:
            printed = ECCV_TABLE_4 if published else {}
            columns = [column for column in tables.ECCV_CAPTION_TABLE if column.tag in tags]
            sections.append(tables.format_columns("Mean of I→T, T→I", columns, printed, rows))
        printed = _published_rows(name) if published else {}
        sections += [tables.format_columns(*layout, printed, rows) for layout in layouts]
    for each in numbers:
        sections += [f"## {each.name}", each.definition, tables.format_numbers(each.metrics)]
    by_name = {board.name: board for board in boards}
    facts = []
    for name in dict.fromkeys([*by_name, *names]):
        lines = _describe(by_name.get(name)), tables.format_counts(name, rows)
        if any(lines):
            facts += [f"### {name}", *filter(None, lines), *_reasons(by_name.get(name))]
    if facts:
        sections += ["## Behind the numbers", *facts]
    return "\n\n".join(sections) + "\n"


def _heading(board: str) -> str:
    return f"## {tables.TITLES[board]} ({board})" if board in tables.TITLES else f"## {board}"


def _published_rows(board: str) -> dict[str, dict[str, float]]:
    """Printed numbers on a board: model -> tag -> number."""
    if board not in PUBLISHED:
        return {
            model: {tag: value for tag, value in row.items() if tag.startswith(f"{board}/")}
            for model, row in ECCV_BY_DIRECTION.items()
        }
    rows: dict[str, dict[str, float]] = {}
    for model, row in PUBLISHED[board].items():
        numbers = rows[model] = {}
        for task, values in row.items():
            if task in tables.ARROWS:
                named = zip(_TUPLE_METRICS, values, strict=True)
            else:
                named = zip(("spearman", "spearman_std"), values, strict=True)
            numbers |= {metric_tag(board, task, m): v for m, v in named if v is not None}
    return rows


def _describe(board: BoardResult | None) -> str:
    if board is None:
        return ""
    return f"{board.definition} Labels `{board.label_hash}`.".strip()


def _reasons(board: BoardResult | None) -> list[str]:
    """The parts that could not be computed, as a list by reason."""
    if board is None:
        return []
    lacking: dict[str, list[str]] = {}
    for task, reason in board.skipped.items():
        lacking.setdefault(reason, []).append(task)
    for task, result in board.tasks.items():
        for metric, reason in result.missing.items():
            lacking.setdefault(reason, []).append(f"{task} {metric}")
    lines = [f"- Without {', '.join(what)}: {why.rstrip('.')}." for why, what in lacking.items()]
    return ["\n".join(lines)] if lines else []
