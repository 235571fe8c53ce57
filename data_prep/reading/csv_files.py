"""Readers of rows with delimiters.

A bad row is a `LeftOut` in `scan_csv`, and an error in `read_csv`. A quote that opens a cell and
does not end it is always an error, since nobody knows how many rows it costs.
"""

import csv
from collections.abc import Iterator, Sequence
from typing import TypeVar

from data_prep.building.record_counts import LeftOut
from data_prep.reading.text_files import AnyPath, read_lines
from data_prep.reading.text_lines import SAVE_AS
from xmodal.core.errors import UnexpectedFilesError

_Row = TypeVar("_Row")
Row = tuple[str, dict[str, str]]
"""Where a row begins ("sts_val.csv line 17"), and its fields by column."""


def read_csv(
    path: AnyPath,
    *,
    columns: Sequence[str],
    delimiter: str = ",",
    header: bool = True,
    quotes: bool = True,
) -> Iterator[Row]:
    """Yields rows, all of which must be valid.

    Args:
      path: path of a csv file, gzipped or not.
      columns: names that the header must have; without a header, the names of the first columns.
      delimiter: delimiter between two fields.
      header: whether the first row names the columns, so that no row may have more fields.
      quotes: whether fields may be in double quotes, and then have line breaks.

    Raises:
      FileNotFoundError: there is no such file.
      UnexpectedFilesError: a column is missing, the file is damaged, or a row has another number of
        fields, odd quotes, or is not UTF-8.
    """
    for row in scan_csv(path, columns, delimiter, header=header, quotes=quotes):
        yield _checked(row, path)


def scan_csv(
    path: AnyPath, columns: Sequence[str], delimiter: str, *, header: bool, quotes: bool
) -> Iterator[Row | LeftOut]:
    """Yields rows, or why they are bad; see `read_csv`."""
    rows = _scan_rows(path, delimiter, csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE)
    names = list(columns)
    if header:
        names = _checked(next(rows, ("", [])), path)[1]
        if missing := [name for name in columns if name not in names]:
            raise UnexpectedFilesError(f"{path} lacks the column {', '.join(missing)}")
    for row in rows:
        if isinstance(row, LeftOut):
            yield row
            continue
        where, fields = row
        if len(fields) < len(names) or (header and len(fields) > len(names)):
            detail = f"{len(fields)} fields instead of {len(names)}: {delimiter.join(fields)!r:.80}"
            yield LeftOut(where, "malformed row", detail)
        else:
            yield where, dict(zip(names, fields, strict=False))


def _checked(row: _Row | LeftOut, path: AnyPath) -> _Row:
    if isinstance(row, LeftOut):
        raise UnexpectedFilesError(f"{path.parent / row.where}: {row.reason}, {row.detail}")
    return row


def _scan_rows(
    path: AnyPath, delimiter: str, quoting: int
) -> Iterator[tuple[str, list[str]] | LeftOut]:
    # Bytes that are not UTF-8 become lone surrogates.
    lines = (line.decode("utf-8", "surrogateescape") for line in read_lines(path))
    rows = csv.reader(lines, delimiter=delimiter, quoting=quoting, strict=True)  # type: ignore[arg-type]
    while True:
        number = rows.line_num + 1
        where = f"{path.name} line {number}"
        try:
            row = next(rows)
            if number == 1 and row:
                row[0] = row[0].removeprefix("\ufeff")
            "".join(row).encode()
        except StopIteration:
            return
        except UnicodeEncodeError:
            yield LeftOut(where, "not UTF-8", SAVE_AS)
        except csv.Error as error:
            if rows.line_num > number or "unexpected end" in str(error):
                raise UnexpectedFilesError(
                    f"{path} line {number}: a quote opens a cell and does not end it as it should "
                    f"({error}); close the quote, or double it if it belongs to the text"
                ) from error
            yield LeftOut(where, "malformed row", str(error))
        else:
            if row:
                yield where, row
