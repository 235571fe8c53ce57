"""The tables of Markdown files that are made from the results.

A table stands between `<!--reproduction:NAME-->` and `<!--end-->`; everything else is written by
hand.
"""

import collections
import re
from collections.abc import Iterable, Sequence

from xmodal.apps.reproduction.entries import STATUSES, LedgerRow, PublishedResults, tags_of
from xmodal.core.text_table import Rows, format_table

_PLACE = re.compile(r"(<!--reproduction:(?P<name>[^>]*)-->\n).*?(<!--end-->)", re.DOTALL)


def fill_page(text: str, results: PublishedResults) -> str:
    """Returns the text of a page with all of its tables made again."""

    def fill(place: re.Match) -> str:
        name = place["name"]
        made = count_cells(results, results.titles) if name == "counts" else table_of(name, results)
        return f"{place[1]}{format_table(made)}\n{place[3]}"

    return _PLACE.sub(fill, text)


def count_cells(results: PublishedResults, groups: Iterable[str]) -> Rows:
    """Returns a row per paper with the number of its printed cells by status, and their sum."""
    rows, total = [["", "cells", *STATUSES]], collections.Counter[str]()
    for group in groups:
        counts = collections.Counter(
            status
            for row in results.rows
            if row.table.name.split("/")[0] == group
            for tag, status in row.statuses.items()
            if tag in row.published
        )
        total += counts
        rows += [_count(results.titles[group], counts)] if counts else []
    return [*rows, _count("all", total)]


def _count(title: str, counts: collections.Counter[str]) -> list[str]:
    return [title, f"{counts.total():,}", *(str(counts[each] or "") for each in STATUSES)]


def table_of(name: str, results: PublishedResults) -> Rows:
    """Returns the cells of a table."""
    rows = [row for row in results.rows if row.table.name == name]
    table = rows[0].table
    cells: list[Sequence[str]] = [[table.corner, *table.heads]]
    for system in table.above:
        papers = _papers_of(results.of_system(system))
        label = results.systems[system].label
        cells.append([label, *(papers.get(tag, "") for tag in table.columns)])
    for row in rows:
        sources = [row] if row.published else results.of_system(row.system.like)
        papers = _papers_of(sources) if table.beside else {}
        line = [row.label]
        for tag, column in zip(tags_of(table, row.system), table.columns, strict=True):
            text = row.measured.get(tag, "")
            line.append(f"{text} ({papers[column]})" if text and column in papers else text)
        cells.append(line)
    return list(zip(*cells, strict=True)) if table.transposed else cells


def _papers_of(rows: Sequence[LedgerRow]) -> dict[str, str]:
    """Tag -> published number, of those that were checked in their source."""
    checked = (row for row in rows if not row.table.unverified)
    return {tag: value for row in checked for tag, value in row.published.items()}
