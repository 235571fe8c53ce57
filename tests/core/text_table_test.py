"""Tables of Markdown, as text and as web pages."""

import pytest

from xmodal.core.errors import UserError
from xmodal.core.text_table import Bold, format_document, format_table


def test_latex_escapes_text_and_sets_bold():
    rows = [["50 %_a", "I→T R@1"], ["x\\y", Bold("3.0")], ["", "[-1.0, 2-3]"], ["own-data", "-"]]
    assert format_table(rows, "latex").splitlines() == [
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"50 \%\_a & I$\to$T R@1 \\",
        r"\midrule",
        r"x\textbackslash{}y & \textbf{3.0} \\",
        r" & {}[$-$1.0, 2-3] \\",
        r"own-data & -- \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]
    assert "| x\\y      |         3.0 |" in format_table(rows)  # Markdown stays plain and aligned.
    with pytest.raises(UserError, match=r"'tex' in format; known: \['latex', 'markdown'\]"):
        format_table(rows, "tex")


def test_a_document_in_latex_has_captions_and_comments():
    parts = ["# A & B", "**Partial: 5 %.**", "A note.\n- more", [["", "R@1"], ["x", "1"]]]
    text = format_document(parts, "latex")
    assert "\n\n% # A & B\n\n\\textbf{Partial: 5 \\%.}\n\n% A note.\n% - more\n\n" in text
    assert "\\begin{table}\n\\centering\n\\caption{A \\& B}\n\\begin{tabular}{lr}\n" in text
    assert format_document(parts).startswith("# A & B\n\n**Partial: 5 %.**\n\nA note.\n- more\n\n|")
