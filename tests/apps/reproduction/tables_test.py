"""Tables of Markdown files: equal to `configs/results`, and without unverified numbers."""

import pathlib

from xmodal.apps.reproduction.entries import read_results
from xmodal.apps.reproduction.tables import fill_page

ROOT = pathlib.Path(__file__).parents[3]


def test_pages_are_up_to_date():
    """`xmodal reproduce --write_tables` makes them so."""
    results = read_results()
    assert {row.table.page for row in results.rows} == {"", "configs/results.md"}
    text = (ROOT / "configs/results.md").read_text(encoding="utf-8")
    assert fill_page(text, results) == text, "xmodal reproduce --write_tables"
    tables = {row.table.name for row in results.rows if row.table.page}
    assert all(f"<!--reproduction:{name}-->" in text for name in (*tables, "counts"))
