"""Tables in Markdown that are also readable as text."""

from collections.abc import Sequence


def format_table(rows: Sequence[Sequence[str]]) -> str:
    """Aligns cells into a Markdown table; the first row is the header, the first column text.

    A cell may be any text, such as a model's name with a vertical bar.
    """
    rows = [[cell.replace("|", r"\|").replace("\n", " ") for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    lines = []
    for row in (rows[0], rule, *rows[1:]):
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append(" | ".join([row[0].ljust(widths[0]), *cells[1:]]))
    return "\n".join(f"| {line} |" for line in lines)
