"""Tables of Markdown files: equal to `configs/results`, and without unverified numbers."""

import pathlib

from xmodal.apps.reproduction.entries import read_results
from xmodal.apps.reproduction.tables import fill_page, pages_of

ROOT = pathlib.Path(__file__).parents[3]


def test_pages_are_up_to_date():
    """`xmodal reproduce --write_tables` makes them so."""
    results = read_results()
    assert pages_of(results) == ["configs/results.md"]
    shown = ""
    for page in pages_of(results):
        text = (ROOT / page).read_text(encoding="utf-8")
        assert fill_page(text, results) == text, f"{page}: xmodal reproduce --write_tables"
        shown += text
    tables = {row.table.name for row in results.rows if row.table.page}
    assert all(f"<!--reproduction:{name}-->" in shown for name in (*tables, "counts"))
