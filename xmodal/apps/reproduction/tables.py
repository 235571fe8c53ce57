"""The tables of Markdown files that are made from the results.

A table stands between `<!--reproduction:NAME-->` and `<!--end-->`; everything else is written by
hand.
"""

import collections
import re
from collections.abc import Sequence

from xmodal.apps.reproduction.entries import LedgerRow, PublishedResults, tags_of

_PLACE = re.compile(r"(<!--reproduction:(?P<name>[^>]*)-->\n).*?(<!--end-->)", re.DOTALL)


def fill_page(text: str, results: PublishedResults) -> str:
    """Returns the text of a page with all of its tables made again."""

    def fill(place: re.Match) -> str:
        name = place["name"]
        made = count_rows(results) if name == "counts" else table_of(name, results)
        return f"{place[1]}{made}\n{place[3]}"

    return _PLACE.sub(fill, text)


def count_rows(results: PublishedResults) -> str:
    """Returns sentences with the number of published rows by status, and of our own."""
    published = [row for row in results.rows if row.published]
    counts = collections.Counter(row.status for row in published)
    # Some rows are in two tables.
    own = {(row.system.name, row.label) for row in results.rows if not row.published}
    return (
        f"Of {len(published)} rows of published results, {counts['measured here']} were measured "
        f"here ({sum(map(_agrees, published))} agree). Tests compare the implementation with\nthe "
        f"publisher's for another {counts['parity only']}; {counts['needs files']} need downloads, "
        f"{counts['unverified']} are unverified, and {counts['not covered']} are not covered. "
        f"{len(own)} more\nare our own."
    )


def table_of(name: str, results: PublishedResults) -> str:
    """Returns a table in Markdown."""
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
    cells = list(zip(*cells, strict=True)) if table.transposed else cells
    head, *lines = ("|" + "|".join(f" {cell} " if cell else " " for cell in line) + "|"
                    for line in cells)  # fmt: skip
    return "\n".join([head, "|---" + "|---:" * (len(cells[0]) - 1) + "|", *lines])


def _papers_of(rows: Sequence[LedgerRow]) -> dict[str, str]:
    """Tag -> published number, of those that were checked in their source."""
    checked = (row for row in rows if not row.table.unverified)
    return {tag: value for row in checked for tag, value in row.published.items()}


def _agrees(row: LedgerRow) -> bool:
    """Whether the stored numbers are the paper's, within the tolerance."""
    pairs = [(row.measured[tag].number, row.published[tag].number)
             for tag in row.measured if tag in row.published]  # fmt: skip
    return bool(pairs) and all(
        ours is not None and paper is not None and abs(ours - paper) <= row.table.tolerance
        for ours, paper in pairs
    )
