"""Readers of rows with delimiters.

A bad row is a `LeftOut` in `scan_csv`, and an error in `read_csv`. A quote that opens a cell and
takes later lines into it is always an error, since nobody knows how many rows it costs.
"""

import codecs
import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from data_prep.building.record_counts import LeftOut
from data_prep.reading.text_files import AnyPath, read_lines
from data_prep.reading.text_lines import SAVE_AS
from xmodal.core.errors import UnexpectedFilesError

_Row = TypeVar("_Row")
IsRow = Callable[[str, list[str]], bool]
"""Whether a line inside a cell looks like another row, given the row of that cell."""


def read_csv(
    path: AnyPath,
    *,
    columns: Sequence[str],
    delimiter: str = ",",
    header: bool = True,
    quotes: bool = True,
) -> Iterator[tuple[str, dict[str, str]]]:
    """Reads rows, all of which must be valid; see `scan_csv`.

    Yields:
      Where a row begins ("sts_val.csv line 17"), and its fields by column.

    Raises:
      FileNotFoundError: there is no such file.
      UnexpectedFilesError: a column is missing or a row is bad; names file, line and reason.
    """
    rows = scan_csv(path, columns=columns, delimiter=delimiter, header=header, quotes=quotes)
    return without_bad_rows(rows, path)


def without_bad_rows(rows: Iterable[_Row | LeftOut], path: AnyPath) -> Iterator[_Row]:
    """Yields the rows of a file and stops at the first bad one.

    Raises:
      UnexpectedFilesError: a row is bad; names file, line and reason.
    """
    for row in rows:
        if isinstance(row, LeftOut):
            raise UnexpectedFilesError(f"{path.parent / row.where}: {row.reason}, {row.detail}")
        yield row


def scan_csv(
    path: AnyPath,
    *,
    columns: Sequence[str],
    delimiter: str = ",",
    header: bool = True,
    quotes: bool = True,
    exact: bool | None = None,
    is_row: IsRow | None = None,
) -> Iterator[tuple[str, dict[str, str]] | LeftOut]:
    """Reads rows, some of which may be bad: wrong length, not UTF-8, NULs, odd quotes.

    Args:
      path: path of a csv file, gzipped or not.
      columns: names that the header must have; without a header, the names of the first columns.
      delimiter: delimiter between two fields.
      header: whether the first row names the columns.
      quotes: whether fields may be in double quotes.
      exact: whether no row may have more fields than there are names; by default if there is a
        header.
      is_row: see `scan_rows`.

    Yields:
      See `read_csv`; or why a row is bad.

    Raises:
      FileNotFoundError: there is no such file.
      UnexpectedFilesError: a column is missing, the gzip stream is truncated or damaged, or a cell
        took rows into it.
    """
    rows = scan_rows(path, delimiter=delimiter, quotes=quotes, is_row=is_row)
    names, exact = list(columns), header if exact is None else exact
    if header:
        first = next(rows, ("", []))
        if isinstance(first, LeftOut):
            raise UnexpectedFilesError(f"{path.parent / first.where}: {first.detail}")
        names = first[1]
        if missing := [name for name in columns if name not in names]:
            raise UnexpectedFilesError(f"{path} lacks the column {', '.join(missing)}")
    for row in rows:
        if isinstance(row, LeftOut):
            yield row
            continue
        where, fields = row
        if len(fields) < len(names) or (exact and len(fields) > len(names)):
            detail = f"{len(fields)} fields instead of {len(names)}"
            if quotes and len(fields) > len(names):
                detail += f": a field with {delimiter!r} inside needs quotes"
            yield LeftOut(where, "malformed row", detail)
        else:
            yield where, dict(zip(names, fields, strict=False))


def scan_rows(
    path: AnyPath, *, delimiter: str = ",", quotes: bool = True, is_row: IsRow | None = None
) -> Iterator[tuple[str, list[str]] | LeftOut]:
    """Reads the fields of all rows, also of a header; skips empty lines.

    Args:
      path: path of a csv file, gzipped or not.
      delimiter: delimiter between two fields.
      quotes: whether fields may be in double quotes, and then have line breaks.
      is_row: if it is true of a line inside a cell, that line was not meant to be there.

    Yields:
      Where a row begins, and its fields; or why it is bad.

    Raises:
      FileNotFoundError: there is no such file.
      UnexpectedFilesError: the gzip stream is truncated or damaged, or a cell took rows into it.
    """
    lines = Lines(path)
    rows = csv.reader(
        lines,
        delimiter=delimiter,
        quoting=csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE,
        strict=True,
    )
    while True:
        number = rows.line_num + 1
        where = f"{path.name} line {number}"
        lines.start_row()
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            if len(lines.taken) > 1 or "unexpected end" in str(error):
                what = f"does not end it as it should ({error})"
                raise _open_quote(path, number, what, lines.taken[0]) from error
            yield LeftOut(where, "malformed row", str(error))
            continue
        if not row:
            continue
        for place, line in enumerate(lines.taken[1:], 1):
            if is_row is not None and is_row(line, row):
                what = f"takes line {number + place} into it, which looks like another row"
                raise _open_quote(path, number, what, line)
        if lines.bad:
            reason, _, detail = lines.bad.partition(": ")
            yield LeftOut(where, reason, detail)
        else:
            yield where, row


def _open_quote(path: AnyPath, number: int, what: str, line: str) -> UnexpectedFilesError:
    shown = line.rstrip("\r\n")
    return UnexpectedFilesError(
        f"{path} line {number}: a quote opens a cell and {what}: {shown!r:.80}; close the quote in "
        f"line {number}, or double it if it belongs to the text"
    )


class Lines:
    """Lines of a file as text.

    Attributes:
      taken: lines since the last `start_row`.
      bad: why one of them is not text: "reason: detail", or "".
    """

    def __init__(self, path: AnyPath) -> None:
        self._lines = read_lines(path)
        self._first = True
        self.start_row()

    def start_row(self) -> None:
        """Forgets the lines so far."""
        self.bad, self.taken = "", list[str]()

    def __iter__(self) -> "Lines":
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        if self._first:
            self._first, line = False, line.removeprefix(codecs.BOM_UTF8)
        if b"\0" in line:
            self.bad = f"not text: a NUL at byte {line.index(0)} of the line"
        try:
            self.taken.append(line.decode("utf-8"))
        except UnicodeDecodeError as error:
            self.bad = f"not UTF-8: {error.reason} at byte {error.start} of the line; {SAVE_AS}"
            self.taken.append(line.decode("utf-8", "replace"))
        return self.taken[-1]
