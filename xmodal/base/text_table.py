"""Tables as text: in Markdown, or in plain columns."""

from collections.abc import Container, Sequence


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


def align_columns(rows: Sequence[Sequence[str]], *, right: Container[int]) -> str:
    """Aligns cells into columns of plain text; those at the positions `right` end together."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if place in right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )
