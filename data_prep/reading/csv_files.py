"""Readers of rows with delimiters.

A bad row is a `LeftOut` in `scan_csv`, and an error in `read_csv`. A quote that opens a cell and
does not end it is always an error, since nobody knows how many rows it costs.
"""

import csv
from collections.abc import Iterator, Sequence

from data_prep.building.record_counts import LeftOut
from data_prep.reading.text_files import AnyPath, read_lines
from data_prep.reading.text_lines import SAVE_AS
from xmodal.core.errors import UnexpectedFilesError

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
        if isinstance(row, LeftOut):
            raise UnexpectedFilesError(f"{path.parent / row.where}: {row.reason}, {row.detail}")
        yield row


def scan_csv(
    path: AnyPath, columns: Sequence[str], delimiter: str, *, header: bool, quotes: bool
) -> Iterator[Row | LeftOut]:
    """Yields rows, or why they are bad; see `read_csv`."""
    # Bytes that are not UTF-8 become lone surrogates.
    lines = (line.decode("utf-8", "surrogateescape") for line in read_lines(path))
    quoting = csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE
    rows = csv.reader(lines, delimiter=delimiter, quoting=quoting, strict=True)  # type: ignore[arg-type]
    names = [] if header else list(columns)
    while True:
        number = rows.line_num + 1
        where = f"{path.name} line {number}"
        try:
            row = next(rows, None)
            if number == 1 and row:
                row[0] = row[0].removeprefix("\ufeff")
            "".join(row or []).encode()
        except UnicodeEncodeError:
            yield LeftOut(where, "not UTF-8", SAVE_AS)
            continue
        except csv.Error as error:
            if rows.line_num > number or "unexpected end" in str(error):
                raise UnexpectedFilesError(
                    f"{path} line {number}: a quote opens a cell and does not end it as it should "
                    f"({error}); close the quote, or double it if it belongs to the text"
                ) from error
            yield LeftOut(where, "malformed row", str(error))
            continue
        if not names and row != []:
            names = row or []  # None at the end of the file.
            if missing := [name for name in columns if name not in names]:
                raise UnexpectedFilesError(f"{path} lacks the column {', '.join(missing)}")
        elif row and (len(row) < len(names) or (header and len(row) > len(names))):
            detail = f"{len(row)} fields instead of {len(names)}: {delimiter.join(row)!r:.80}"
            yield LeftOut(where, "malformed row", detail)
        elif row:
            yield where, dict(zip(names, row, strict=False))
        if row is None:
            return
