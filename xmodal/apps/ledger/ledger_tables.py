"""The tables of Markdown files that are made from the ledger.

A table stands between `<!--ledger:NAME-->` and `<!--end-->`; everything else is written by hand.
"""

import collections
import pathlib
import re
from collections.abc import Mapping, Sequence

from xmodal.apps.ledger.ledger_entries import Ledger, LedgerRow, Value, tags_of
from xmodal.core.errors import UserError

COUNTS = "counts"
_PLACE = re.compile(r"(<!--ledger:(?P<name>[^>]*)-->\n).*?(<!--end-->)", re.DOTALL)


def fill_page(text: str, ledger: Ledger) -> str:
    """Returns the text of a page with all of its tables made again."""

    def fill(place: re.Match) -> str:
        name = place["name"]
        made = count_rows(ledger) if name == COUNTS else table_of(name, ledger)
        return f"{place[1]}{made}\n{place[3]}"

    return _PLACE.sub(fill, text)


def rewrite_pages(ledger: Ledger, root: pathlib.Path) -> list[str]:
    """Makes the tables of all pages of a checkout again; returns the pages that changed."""
    changed = []
    for page in pages_of(ledger):
        if not (path := root / page).exists():
            raise UserError(f"{path} does not exist: the tables are those of a checkout.")
        text = path.read_text(encoding="utf-8")
        if (made := fill_page(text, ledger)) != text:
            path.write_text(made, encoding="utf-8")
            changed.append(page)
    return changed


def pages_of(ledger: Ledger) -> list[str]:
    """Returns the paths of all pages, below the root of a checkout."""
    return sorted({row.table.page for row in ledger.rows if row.table.page})


def count_rows(ledger: Ledger) -> str:
    """Returns sentences with the number of published rows by status, and of our own."""
    published = [row for row in ledger.rows if row.published]
    counts = collections.Counter(row.status for row in published)
    # Some rows are in two tables.
    own = {(row.system.name, row.label) for row in ledger.rows if not row.published}
    return (
        f"Of {len(published)} rows of published results, {counts['measured here']} were measured "
        f"here ({sum(map(_agrees, published))} agree). Tests compare the implementation with\nthe "
        f"publisher's for another {counts['parity only']}; {counts['needs files']} need downloads, "
        f"{counts['unverified']} are unverified, and {counts['not covered']} are not covered. "
        f"{len(own)} more\nare our own."
    )


def table_of(name: str, ledger: Ledger) -> str:
    """Returns a table in Markdown."""
    cells = _cells_of(name, ledger)
    rule = "|---" + "|---:" * (len(cells[0]) - 1) + "|"
    head, *lines = ("|" + "|".join(f" {cell} " if cell else " " for cell in line) + "|"
                    for line in cells)  # fmt: skip
    return "\n".join([head, rule, *lines])


def _cells_of(name: str, ledger: Ledger) -> list[list[str]]:
    """The cells of a table, the heads first."""
    rows = [row for row in ledger.rows if row.table.name == name and row.table.page]
    if not rows:
        raise UserError(f"The ledger has no table {name!r} for a page.")
    table = rows[0].table
    body = [[ledger.systems[system].label, *_published(system, table.columns, ledger)]
            for system in table.above]  # fmt: skip
    body += [[row.label, *_cells(row, ledger)] for row in rows]
    cells = [[table.corner, *table.heads], *body]
    return [list(column) for column in zip(*cells, strict=True)] if table.transposed else cells


def _cells(row: LedgerRow, ledger: Ledger) -> list[str]:
    """The measured numbers, with the paper's in parentheses if the table has them."""
    texts = [row.measured.get(tag, Value("")).text for tag in tags_of(row.table, row.system)]
    if row.table.beside:
        papers = row.published or _by_tag(row.system.like, ledger)
        texts = [
            f"{text} ({papers[tag].text})" if text and tag in papers else text
            for text, tag in zip(texts, row.table.columns, strict=True)
        ]
    return texts


def _published(system: str, columns: Sequence[str], ledger: Ledger) -> list[str]:
    papers = _by_tag(system, ledger)
    return [papers.get(tag, Value("")).text for tag in columns]


def _by_tag(system: str, ledger: Ledger) -> Mapping[str, Value]:
    """The published numbers of a system, those that were checked in their source."""
    return {
        tag: value
        for row in ledger.of_system(system)
        if not row.table.unverified
        for tag, value in row.published.items()
    }


def _agrees(row: LedgerRow) -> bool:
    """Whether the stored numbers are the paper's, within the tolerance."""
    pairs = [(row.measured[tag].number, row.published[tag].number)
             for tag in row.measured if tag in row.published]  # fmt: skip
    return bool(pairs) and all(
        ours is not None and paper is not None and abs(ours - paper) <= row.table.tolerance
        for ours, paper in pairs
    )
