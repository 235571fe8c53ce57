"""Tables of Markdown, as text and as web pages."""

from xmodal.base.page import from_markdown
from xmodal.base.text_table import format_table


def test_columns_are_aligned():
    assert format_table([["", "R@1"], ["coco", "3.0"], ["cxc", "-"]]).splitlines() == [
        "|      | R@1 |",
        "| ---- | --: |",
        "| coco | 3.0 |",
        "| cxc  |   - |",
    ]


def test_any_text_is_one_cell():
    table = format_table([["a|b\nc", "R@1"], ["coco", "3.0"]])
    page = from_markdown(f"# Title\n\n{table}\n").body
    assert "<th>a|b c</th>" in page
    assert page.count("<th") - page.count("<thead") == page.count("<td") == 2
