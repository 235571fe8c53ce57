"""Tables as text: in Markdown, in LaTeX, or in plain columns."""

import math
import re
from collections.abc import Container, Sequence

from xmodal.core.config import lookup

Rows = Sequence[Sequence[str]]

_LATEX = str.maketrans(
    {each: rf"\{each}" for each in "&%$#_{}"}
    | {each: f"${each}$" for each in "<>|"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"→": r"$\to$", "±": r"$\pm$", "≥": r"$\geq$", "≤": r"$\leq$", "\n": " "}
)
_MINUS = re.compile(r"(?<![\w.])-(?=\d)")


class Bold(str):
    """A cell that LaTeX sets in bold; the text of other formats, which is aligned, stays plain."""


def format_table(rows: Rows, format: str = "markdown") -> str:
    """Returns cells as a table; the first row is the header, the first column text.

    A cell may be any text, such as a model's name with a vertical bar.

    Args:
      rows: the cells, with equally many in every row.
      format: "markdown", aligned to be readable in a terminal, or "latex", a `tabular` for the
        package booktabs.
    """
    return lookup("format", format, {"markdown": _as_markdown, "latex": _as_latex})(rows)


def format_document(parts: Sequence[str | Rows], format: str = "markdown") -> str:
    """Returns the text of a document of paragraphs and tables.

    Args:
      parts: paragraphs, headings and lists in Markdown, and the cells of tables.
      format: "markdown"; or "latex": every table is a `table` whose caption is the heading above
        it, paragraphs in bold stay, all other text is a comment.
    """
    if format == "latex":
        return _document_as_latex(parts)
    found = [part if isinstance(part, str) else format_table(part, format) for part in parts]
    return "\n\n".join(found) + "\n"


def format_number(value: float | None, spec: str) -> str:
    """Returns a number as a cell; "-" if it is missing or undefined."""
    return "-" if value is None or math.isnan(value) else f"{value:{spec}}"


def align_columns(rows: Rows, *, right: Container[int]) -> str:
    """Aligns cells into columns of plain text; those at the positions `right` end together."""
    return "\n".join("  ".join(row).rstrip() for row in _pad(rows, right))


def _pad(rows: Rows, right: Container[int]) -> list[list[str]]:
    """Pads the cells of each column to the width of its longest."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        [f"{cell:{'>' if n in right else '<'}{widths[n]}}" for n, cell in enumerate(row)]
        for row in rows
    ]


def _as_markdown(rows: Rows) -> str:
    cells = [[cell.replace("|", r"\|").replace("\n", " ") for cell in row] for row in rows]
    head, *body = _pad(cells, range(1, len(rows[0])))
    rule = [("-" * len(cell))[bool(n) :] + ":" * bool(n) for n, cell in enumerate(head)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *body))


def _as_latex(rows: Rows) -> str:
    head, *body = (" & ".join(map(_latex_cell, row)) + r" \\" for row in rows)
    columns = "l" + "r" * (len(rows[0]) - 1)
    top = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", head, r"\midrule"]
    return "\n".join([*top, *body, r"\bottomrule", r"\end{tabular}"])


def _latex_cell(cell: str) -> str:
    text = _escape(cell.strip())
    if isinstance(cell, Bold):
        return rf"\textbf{{{text}}}"
    # After the end of a row, a bracket would begin the size of the space below it.
    return f"{{}}{text}" if text.startswith("[") else text


def _escape(text: str) -> str:
    return "--" if text == "-" else _MINUS.sub("$-$", text.translate(_LATEX))


def _document_as_latex(parts: Sequence[str | Rows]) -> str:
    found, heading = [r"% Needs \usepackage{booktabs}."], ""
    for part in parts:
        if not isinstance(part, str):
            caption = rf"\caption{{{_escape(heading)}}}"
            table = [r"\begin{table}", r"\centering", caption, _as_latex(part), r"\end{table}"]
            found.append("\n".join(table))
        elif part.startswith("**"):
            found.append(rf"\textbf{{{_escape(part.strip('*'))}}}")
        else:
            heading = part.lstrip("# ") if part.startswith("#") else heading
            found.append("\n".join(f"% {line}".rstrip() for line in part.splitlines()))
    return "\n\n".join(found) + "\n"
