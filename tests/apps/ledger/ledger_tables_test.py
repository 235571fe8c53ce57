"""Tables of Markdown files: equal to the ledger's, and without unverified numbers."""

import pathlib

import pytest

from xmodal.apps.ledger.ledger_entries import read_ledger
from xmodal.apps.ledger.ledger_tables import fill_page, pages_of, rewrite_pages, table_of
from xmodal.core.errors import UserError

ROOT = pathlib.Path(__file__).parents[3]

SMALL = """
title = "Small"
[systems.paper]
label = "theirs"
note = "elsewhere"
[systems.ours]
label = "`ours`"
like = "small/paper"
note = "elsewhere"

[[tables]]
name = "theirs"
source = "table 1"
columns = "a/x a/y"
tolerance = 1.0
reason = "seeds"
[tables.published]
paper = "1.0 2.0"

[[tables]]
name = "remembered"
source = "table 2"
columns = "a/z"
unverified = true
tolerance = 1.0
reason = "seeds"
[tables.published]
paper = "3.0"

[[tables]]
name = "mine"
page = "README.md"
columns = "a/{x,y,z}"
heads = ["X", "Y", "Z"]
above = ["small/paper"]
beside = true
tolerance = 1.0
reason = "seeds"
[tables.measured]
ours = ["1.5±0.1", "", "4"]
"""


@pytest.fixture
def small(tmp_path):
    (tmp_path / "small.toml").write_text(SMALL)
    (tmp_path / "files.toml").write_text("[files]\n[commands]\n")
    return read_ledger(tmp_path)


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
    assert all(f"<!--ledger:{name}-->" in shown for name in (*tables, "counts"))


def test_a_table(small):
    assert table_of("small/mine", small).splitlines() == [
        "| | X | Y | Z |",
        "|---|---:|---:|---:|",
        "| theirs | 1.0 | 2.0 | |",
        "| `ours` | 1.5±0.1 (1.0) | | 4 |",
    ]


def test_pages_are_written_again(small, tmp_path):
    page = tmp_path / "README.md"
    page.write_text("before\n<!--ledger:small/mine-->\nold\n<!--end-->\nafter\n")
    assert rewrite_pages(small, tmp_path) == ["README.md"]
    text = page.read_text()
    assert text.startswith("before\n<!--ledger:small/mine-->\n| | X |")
    assert text.endswith("| 4 |\n<!--end-->\nafter\n")
    assert "old" not in text
    assert rewrite_pages(small, tmp_path) == []
    page.write_text("<!--ledger:small/theirs-->\n<!--end-->\n")
    with pytest.raises(UserError, match="no table 'small/theirs' for a page"):
        rewrite_pages(small, tmp_path)
    with pytest.raises(UserError, match="does not exist"):
        rewrite_pages(small, tmp_path / "elsewhere")
