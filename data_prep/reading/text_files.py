"""Readers for the file formats of published datasets (csv, JSON and zip), and their errors.

A damaged file (a truncated gzip stream, invalid JSON) stops a build; a bad row of a csv file is a
`LeftOut` in `scan_csv`, and an error in `read_csv`.
"""

import codecs
import csv
import gzip
import json
import pathlib
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar

from etils import epath

from data_prep.building.record_counts import LeftOut
from data_prep.errors import UnexpectedFilesError

AnyPath: TypeAlias = pathlib.Path | epath.Path
"""A path on the disk or, as `epath.Path`, in a bucket."""

_Row = TypeVar("_Row")
_GZIP = b"\x1f\x8b"
_ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)


def read_csv(
    path: pathlib.Path,
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
) -> Iterator[tuple[str, dict[str, str]] | LeftOut]:
    """Reads rows, some of which may be bad: wrong length, not UTF-8, NULs, unbalanced quotes.

    Args:
      path: path of a csv file, gzipped or not.
      columns: names that the header must have; without a header, the names of the first columns.
      delimiter: delimiter between two fields.
      header: whether the first row names the columns. Rows must then be as long as the header;
        without one, they may be longer than `columns`.
      quotes: whether fields may be in double quotes.

    Yields:
      See `read_csv`; or why a row is bad.

    Raises:
      FileNotFoundError: there is no such file.
      UnexpectedFilesError: a column is missing, or the gzip stream is truncated or damaged.
    """
    lines = _Lines(path)
    rows = csv.reader(
        lines,
        delimiter=delimiter,
        quoting=csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE,
        strict=True,
    )
    names = list(columns)
    if header:
        names = _header(rows, path)
        if missing := [name for name in columns if name not in names]:
            raise UnexpectedFilesError(f"{path} lacks the column {', '.join(missing)}")
    while True:
        where = f"{path.name} line {rows.line_num + 1}"
        lines.bad = ""
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            yield LeftOut(where, "malformed row", str(error))
            continue
        if not row:
            continue
        if lines.bad:
            reason, _, detail = lines.bad.partition(": ")
            yield LeftOut(where, reason, detail)
        elif len(row) < len(names) or (header and len(row) > len(names)):
            yield LeftOut(where, "malformed row", f"{len(row)} fields instead of {len(names)}")
        else:
            yield where, dict(zip(names, row, strict=False))


def read_json(
    path: pathlib.Path, *, object_hook: Callable[[dict[str, Any]], Any] | None = None
) -> Any:
    """Reads a JSON file, gzipped or not.

    Args:
      path: path of the file.
      object_hook: see `json.loads`.

    Raises:
      FileNotFoundError: there is no such file.
      UnexpectedFilesError: it is truncated or not JSON.
    """
    return parse_json(b"".join(read_lines(path)), str(path), object_hook=object_hook)


def parse_json(
    encoded: bytes, source: str, *, object_hook: Callable[[dict[str, Any]], Any] | None = None
) -> Any:
    """Parses JSON that was read from `source`, which is named in errors.

    Args:
      encoded: the text as UTF-8.
      source: source of the text.
      object_hook: see `json.loads`.

    Raises:
      UnexpectedFilesError: it is truncated or not JSON.
    """
    try:
        return json.loads(encoded, object_hook=object_hook)
    except (UnicodeDecodeError, RecursionError, ValueError) as error:
        raise UnexpectedFilesError(f"{source} is truncated or not JSON: {error}") from error


def read_jsonl(path: pathlib.Path) -> Iterator[tuple[str, Any]]:
    """Reads a file with one JSON value per line, gzipped or not.

    Yields:
      The place of the value ("captions.jsonl line 3"), and the value.

    Raises:
      FileNotFoundError: there is no such file.
      UnexpectedFilesError: a line is not JSON, or the file is truncated.
    """
    for number, line in enumerate(read_lines(path), 1):
        if line.strip():
            yield f"{path.name} line {number}", parse_json(line, f"{path} line {number}")


def read_lines(path: AnyPath) -> Iterator[bytes]:
    """Reads the lines of a file, gzipped or not, with their line ends.

    Raises:
      FileNotFoundError: there is no such file.
      UnexpectedFilesError: the gzip stream is truncated or damaged.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist, or is not a file")
    number = 0
    with path.open("rb") as file:
        packed = file.read(2) == _GZIP
        file.seek(0)
        try:
            for line in gzip.GzipFile(fileobj=file) if packed else file:
                number += 1
                yield line
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise UnexpectedFilesError(
                f"{path} is truncated or damaged after line {number:,} ({error}); download it again"
            ) from error


def open_archive(path: pathlib.Path) -> zipfile.ZipFile:
    """Opens a zip archive.

    Raises:
      FileNotFoundError: there is no such file.
      UnexpectedFilesError: it is truncated or not a zip archive.
    """
    try:
        return zipfile.ZipFile(path)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} does not exist") from None
    except (*_ZIP_ERRORS, ValueError, OSError) as error:
        raise UnexpectedFilesError(
            f"{path} is truncated or not a zip archive ({error}); download it again"
        ) from error


def read_member(archive: zipfile.ZipFile, member: str) -> bytes:
    """Reads a file in an archive.

    Raises:
      UnexpectedFilesError: it does not exist or is damaged.
    """
    try:
        return archive.read(member)
    except (KeyError, ValueError, OSError, *_ZIP_ERRORS) as error:
        raise UnexpectedFilesError(f"{archive.filename}: {member}: {error}") from error


def _header(rows: Iterator[list[str]], path: AnyPath) -> list[str]:
    try:
        return next(rows, [])
    except csv.Error as error:
        raise UnexpectedFilesError(f"{path} line 1: {error}") from error


class _Lines:
    """Lines of a file as text.

    Attributes:
      bad: why a line since the caller last cleared this is not text: "reason: detail", or "".
    """

    def __init__(self, path: AnyPath) -> None:
        self._lines = read_lines(path)
        self.bad = ""
        self._first = True

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        if self._first:
            self._first, line = False, line.removeprefix(codecs.BOM_UTF8)
        if b"\0" in line:
            self.bad = f"not text: a NUL at byte {line.index(0)} of the line"
        try:
            return line.decode("utf-8")
        except UnicodeDecodeError as error:
            self.bad = f"not UTF-8: {error.reason} at byte {error.start} of the line"
            return line.decode("utf-8", "replace")
