"""Rows of tables in the usual formats, with the names of their columns."""

import csv
import dataclasses
import functools
import itertools
import pathlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from data_prep.building.record_counts import LeftOut
from data_prep.captioned_images.options import FILE
from data_prep.captioned_images.parquet_columns import parquet_schema
from data_prep.reading.csv_files import IsRow, scan_csv
from data_prep.reading.text_files import read_json, read_jsonl, read_lines
from data_prep.reading.text_lines import SAVE_AS
from xmodal.core.errors import UnexpectedFilesError
from xmodal.core.picture_names import IMAGE_ENDINGS

TABLE_ENDINGS = (".csv", ".tsv", ".txt", ".token", ".jsonl", ".ndjson", ".json", ".parquet")
Row = tuple[str, dict[str, Any]]

_DELIMITERS = ",;\t|"
_BATCH = 64


@dataclasses.dataclass(frozen=True)
class Table:
    """A table whose columns are known.

    Attributes:
      path: path of the file.
      names: names of its columns.
      delimiter: delimiter of a text file.
      header: whether the first line of a text file names the columns.
    """

    path: pathlib.Path
    names: tuple[str, ...]
    delimiter: str = ""
    header: bool = True

    def rows(
        self, image: str = "", is_picture: Callable[[str], bool] = lambda name: False
    ) -> Iterator[Row | LeftOut]:
        """Yields the location and the values of each row, or why it cannot be read.

        Args:
          image: the column of images, by which a row that a cell took into it is known.
          is_picture: whether a name is that of a picture.

        Raises:
          UnexpectedFilesError: the file is damaged, or a quote makes its rows uncertain.
        """
        if self.delimiter:
            yield from self._delimited_rows(image, is_picture)
        elif ending(self.path) == ".parquet":
            yield from _parquet_rows(self.path)
        else:
            for where, row in _json_rows(self.path):
                yield (
                    (where, row)
                    if isinstance(row, dict)
                    else LeftOut(where, "malformed row", f"not a JSON object: {row!r:.60}")
                )

    def columns(self, *names: str) -> Iterator[Row]:
        """Yields the rows that can be read; of a Parquet file, with these columns alone."""
        is_parquet = ending(self.path) == ".parquet"
        rows = _parquet_rows(self.path, names) if is_parquet else self.rows()
        return (row for row in rows if not isinstance(row, LeftOut))

    def _delimited_rows(
        self, image: str, is_picture: Callable[[str], bool]
    ) -> Iterator[Row | LeftOut]:
        is_row: IsRow | None = None
        if image:
            place = self.names.index(image)
            is_row = functools.partial(_is_row, self.delimiter, place, is_picture)
        quotes = self.delimiter in ",;"  # With tabs or bars, quotes belong to the text.
        bad = opened = ""
        rows = scan_csv(
            self.path,
            columns=self.names,
            delimiter=self.delimiter,
            header=False,
            quotes=quotes,
            exact=True,
            is_row=is_row,
        )
        for row in itertools.islice(rows, int(self.header), None):
            if isinstance(row, LeftOut):
                if opened:
                    raise self._open_cell(opened)
                bad = row.where
                yield row
                continue
            where, cells = row
            if not "".join(cells.values()).strip():
                continue  # Spreadsheets write delimiters for empty rows.
            if not quotes:
                if bad and cells[self.names[0]].count('"') % 2:
                    raise self._open_cell(bad)
                bad = ""
                opened = where if _is_open(cells[self.names[-1]]) else ""
                cells = {name: _unquoted(cell) for name, cell in cells.items()}
            if not self.header:  # Flickr's `name.jpg#0`
                cells[self.names[0]] = re.sub(r"#\d+$", "", cells[self.names[0]])
            yield where, cells

    def _open_cell(self, where: str) -> UnexpectedFilesError:
        return UnexpectedFilesError(
            f"{self.path.parent / where}: a quote opens its last cell, which seems to go on in the "
            "next line; cells between tabs or bars are in one line: write the table with commas"
        )


def ending(path: pathlib.Path) -> str:
    """Returns the extension of a file in lower case, ignoring one for compression."""
    name = path.name.lower().removesuffix(".gz")
    return pathlib.PurePath(name).suffix


def open_table(path: pathlib.Path, names: tuple[str, ...] = ()) -> Table:
    """Finds the columns of a table.

    Fields of text files are separated by commas, semicolons, tabs or bars.

    Args:
      path: path of the file.
      names: names of the columns of a text file without a header; () if there is one.

    Raises:
      UnexpectedFilesError: the file is damaged or not a table, or has not as many columns.
    """
    if ending(path) == ".parquet":
        return Table(path, tuple(parquet_schema(path).names))
    if ending(path) in (".json", ".jsonl", ".ndjson"):
        found: dict[str, None] = {}
        for number, (_, row) in enumerate(_json_rows(path)):
            found |= dict.fromkeys(map(str, row)) if isinstance(row, dict) else {}
            if number == 1000:
                break
        return Table(path, tuple(found))
    line = _first_line(path)
    fields = {mark: next(csv.reader([line], delimiter=mark), []) for mark in _DELIMITERS}
    if names:
        fitting = [mark for mark, found in fields.items() if len(found) == len(names)]
        if len(fitting) != 1:
            raise UnexpectedFilesError(
                f"{path}: {FILE} names {len(names)} columns, but the first line {line!r:.80} has "
                + ("none or as many by more than one delimiter" if fitting else "not as many")
            )
        return Table(path, names, fitting[0], header=False)
    if "\ufffd" in line:
        raise UnexpectedFilesError(f"{path} line 1, its header, is not UTF-8; {SAVE_AS}")
    delimiter = max(_DELIMITERS, key=line.count)
    return Table(path, tuple(fields[delimiter]), delimiter)


def _first_line(path: pathlib.Path) -> str:
    start = b"".join(itertools.islice(read_lines(path), 1))
    if start[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in start:
        raise UnexpectedFilesError(f"{path} is UTF-16 or not text; save it as UTF-8")
    line = start.decode("utf-8-sig", "replace").rstrip("\r\n")
    if "\r" in line:
        raise UnexpectedFilesError(f"{path} has lines that end in CR alone; save them with LF")
    if re.fullmatch(r'"?sep=."?', line, re.IGNORECASE):
        raise UnexpectedFilesError(f"{path} starts with {line!r}, a note to Excel; delete the line")
    return line


def _is_row(
    delimiter: str, place: int, is_picture: Callable[[str], bool], line: str, row: list[str]
) -> bool:
    """Whether a line inside a cell names an image, or looks as if it did like the row."""
    fields = next(csv.reader([line], delimiter=delimiter), [])
    if len(fields) < 2 or len(fields) <= place:
        return False
    names = [field.strip().strip('"') for field in fields]
    name = names[place]
    if any(each.lower().endswith(IMAGE_ENDINGS) for each in names) or is_picture(name):
        return True
    # The names may be numbers: 17 beside 16, or img_0017 beside img_0016.
    return (
        len(fields) == len(row)
        and any(sign.isdecimal() for sign in name)
        and _shape(name) == _shape(row[place].strip())
    )


def _shape(name: str) -> str:
    return re.sub(r"[^\W\d_]+", "a", re.sub(r"\d+", "0", name))


def _unquoted(field: str) -> str:
    """A field without its quotes, if it is quoted as in CSV."""
    field = field.strip()
    inner = field[1:-1].replace('""', "")
    if len(field) < 2 or field[0] != '"' or field[-1] != '"' or '"' in inner:
        return field
    return field[1:-1].replace('""', '"')


def _is_open(cell: str) -> bool:
    """Whether a quote opens a cell and does not close it."""
    cell = cell.lstrip()
    return cell.startswith('"') and cell.count('"') % 2 == 1


def _json_rows(path: pathlib.Path) -> Iterator[tuple[str, Any]]:
    """Values of JSON lines, or of a single JSON value: a list, or captions by image name."""
    if ending(path) != ".json":
        yield from read_jsonl(path)
        return
    try:
        content = read_json(path)
    except UnexpectedFilesError:
        content = read_json(path, object_pairs_hook=tuple)
        # A name may occur several times in an object of captions by image, but no key in a list.
        if not isinstance(content, tuple):
            raise
    if isinstance(content, list):
        for number, row in enumerate(content):
            yield f"{path.name} entry {number}", row
    elif isinstance(content, (dict, tuple)):
        pairs = content.items() if isinstance(content, dict) else content
        for name, captions in pairs:
            texts = captions if isinstance(captions, list) else [captions]
            if not all(isinstance(each, str) for each in texts):
                raise UnexpectedFilesError(
                    f"{path} is neither a list of objects nor an object with captions by image: "
                    f"{name!r} has {captions!r:.60}"
                )
        for number, (name, captions) in enumerate(pairs):
            yield f"{path.name} entry {number}", {"image": name, "captions": captions}
    else:
        raise UnexpectedFilesError(f"{path} is {content!r:.60}, not a list of objects")


def _parquet_rows(
    path: pathlib.Path, columns: Sequence[str] | None = None
) -> Iterator[Row | LeftOut]:
    import pyarrow
    import pyarrow.parquet

    number = 0
    try:
        with pyarrow.parquet.ParquetFile(path) as table:
            for batch in table.iter_batches(_BATCH, columns=columns):
                for row in batch.to_pylist():
                    yield f"{path.name} row {number}", row
                    number += 1
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        detail = str(error).partition("\n")[0]
        raise UnexpectedFilesError(f"{path} is damaged after row {number:,}: {detail}") from error
