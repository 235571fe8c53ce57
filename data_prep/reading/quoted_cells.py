"""Tells whether a file with tabs or bars was written by a CSV writer, or has quotes in its text.

`"a ""b"" c"` is `a "b" c` to one and the text itself to the other. A writer is known by its rule
for the cells that it quotes: the file must follow it in every line.
"""

import csv
from collections.abc import Callable

from data_prep.reading.csv_files import Lines
from data_prep.reading.text_files import AnyPath


def follows_a_writer(path: AnyPath, delimiter: str) -> bool:
    """Whether the quotes of a file are those of a CSV writer, with a rule for the whole file.

    The rules are those of pandas and Python (cells that need it), of Excel (also with commas), of R
    (all but numbers), and all cells.

    Args:
      path: a text file, gzipped or not.
      delimiter: delimiter between two fields.

    Returns:
      False also if a cell has a line with as many delimiters as a row: it may be another row.

    Raises:
      FileNotFoundError: there is no such file.
      UnexpectedFilesError: the gzip stream is truncated or damaged.
    """
    needing = f'{delimiter}"\r\n'
    rules: list[Callable[[str], bool]] = [
        lambda field: any(sign in field for sign in needing),
        lambda field: any(sign in field for sign in f"{needing},"),
        lambda field: not _is_number(field),
        lambda field: True,
    ]
    lines = Lines(path)
    rows = csv.reader(lines, delimiter=delimiter, strict=True)
    try:
        for row in rows:
            written, inside = "".join(lines.taken).rstrip("\r\n"), lines.taken[1:]
            lines.start_row()
            if any(line.count(delimiter) >= len(row) - 1 for line in inside):
                return False
            rules = [rule for rule in rules if _write(row, delimiter, rule) == written]
            if row and not rules:
                return False
    except csv.Error:
        return False
    return True


def _write(row: list[str], delimiter: str, is_quoted: Callable[[str], bool]) -> str:
    return delimiter.join(
        '"' + field.replace('"', '""') + '"' if is_quoted(field) else field for field in row
    )


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True
