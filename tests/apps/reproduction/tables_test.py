"""Tables of Markdown files: equal to the ledger's, and without unverified numbers."""

import pathlib

from xmodal.apps.reproduction.entries import read_ledger
from xmodal.apps.reproduction.tables import fill_page, pages_of

ROOT = pathlib.Path(__file__).parents[3]


def test_pages_are_those_of_the_ledger():
    """`xmodal reproduce --write_tables` makes them so."""
    ledger = read_ledger()
    assert pages_of(ledger) == ["configs/results.md"]
    shown = ""
    for page in pages_of(ledger):
        text = (ROOT / page).read_text(encoding="utf-8")
        assert fill_page(text, ledger) == text, f"{page}: xmodal reproduce --write_tables"
        shown += text
    tables = {row.table.name for row in ledger.rows if row.table.page}
    assert all(f"<!--reproduction:{name}-->" in shown for name in (*tables, "counts"))
