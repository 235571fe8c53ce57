"""Rows of tables in the usual formats, with the names of their columns."""

import codecs
import csv
import dataclasses
import itertools
import pathlib
import re
from collections.abc import Iterator
from typing import Any

from data_prep.building.record_counts import LeftOut
from data_prep.captioned_images.parquet_columns import parquet_schema
from data_prep.errors import UnexpectedFilesError
from data_prep.reading.picture_names import IMAGE_ENDINGS
from data_prep.reading.text_files import read_json, read_jsonl, read_lines, scan_csv
from data_prep.reading.text_lines import read_caption

TABLE_ENDINGS = (".csv", ".tsv", ".txt", ".token", ".jsonl", ".ndjson", ".json", ".parquet")
Row = tuple[str, dict[str, Any]]

_DELIMITERS = ",;\t|"
_BATCH = 64
# Lines of files without a header: `name.jpg: caption`, or Flickr's `name.jpg#0<tab>caption`.
_UNNAMED = ("image", "caption")
_ENDINGS = "|".join(re.escape(each) for each in IMAGE_ENDINGS)
_LINE = re.compile(
    rf'\s*"?(?P<image>[^"]+?(?:{_ENDINGS}))"?(?:#\d+)?(?:\s*[:,;|\t]|\s)\s*(?P<caption>.*)',
    re.IGNORECASE,
)


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

    def rows(self) -> Iterator[Row | LeftOut]:
        """Yields the location and the values of each row, or why it cannot be read.

        Raises:
          UnexpectedFilesError: the file is damaged.
        """
        if not self.header:
            yield from _named_lines(self.path)
        elif self.delimiter:
            # In files with tabs or bars, quotes that do not open a field are part of the caption.
            quotes = self.delimiter in ",;"
            columns, delimiter = self.names, self.delimiter
            for row in scan_csv(self.path, columns=columns, delimiter=delimiter, quotes=quotes):
                if quotes or isinstance(row, LeftOut):
                    yield row
                else:
                    yield row[0], {name: _unquoted(cell) for name, cell in row[1].items()}
        elif ending(self.path) == ".parquet":
            yield from _parquet_rows(self.path)
        else:
            for where, row in _json_rows(self.path):
                yield (
                    (where, row)
                    if isinstance(row, dict)
                    else LeftOut(where, "malformed row", "no JSON object")
                )


def ending(path: pathlib.Path) -> str:
    """Returns the extension of a file in lower case, ignoring one for compression."""
    name = path.name.lower().removesuffix(".gz")
    return pathlib.PurePath(name).suffix


def open_table(path: pathlib.Path) -> Table:
    """Finds the columns of a table.

    Fields of text files are separated by commas, semicolons, tabs or bars. A file whose first line
    starts with the name of an image has no header: the rest of each line is the caption.

    Raises:
      UnexpectedFilesError: the file is damaged or not a table.
    """
    if ending(path) == ".parquet":
        return Table(path, tuple(parquet_schema(path).names))
    if ending(path) in (".json", ".jsonl", ".ndjson"):
        names: dict[str, None] = {}
        for number, (_, row) in enumerate(_json_rows(path)):
            names |= dict.fromkeys(map(str, row)) if isinstance(row, dict) else {}
            if number == 1000:
                break
        return Table(path, tuple(names))
    line = _first_line(path)
    if _LINE.match(line):
        return Table(path, _UNNAMED, header=False)
    delimiter = max(_DELIMITERS, key=line.count)
    return Table(path, tuple(next(csv.reader([line], delimiter=delimiter), [])), delimiter)


def _first_line(path: pathlib.Path) -> str:
    start = b"".join(itertools.islice(read_lines(path), 1))
    if start[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in start:
        raise UnexpectedFilesError(f"{path} is UTF-16 or not text; save it as UTF-8")
    return start.decode("utf-8-sig", "replace").rstrip("\r\n")


def _named_lines(path: pathlib.Path) -> Iterator[Row | LeftOut]:
    for number, line in enumerate(read_lines(path), 1):
        where = f"{path.name} line {number}"
        text = read_caption(line.removeprefix(codecs.BOM_UTF8), where)
        if isinstance(text, LeftOut):
            if text.reason != "empty caption":  # an empty line
                yield text
            continue
        found = _LINE.match(text.rstrip("\r\n"))
        if found is None:
            yield LeftOut(where, "malformed row", "no image name at its start")
            continue
        yield where, {"image": found["image"], "caption": _unquoted(found["caption"])}


def _unquoted(field: str) -> str:
    """A field without its quotes, if it is quoted as in CSV."""
    field = field.strip()
    inner = field[1:-1].replace('""', "")
    if len(field) < 2 or field[0] != '"' or field[-1] != '"' or '"' in inner:
        return field
    return field[1:-1].replace('""', '"')


def _json_rows(path: pathlib.Path) -> Iterator[tuple[str, Any]]:
    """Values of JSON lines, or of a single JSON value: a list, or captions by image name."""
    if ending(path) != ".json":
        yield from read_jsonl(path)
        return
    content = read_json(path)
    if isinstance(content, dict):
        texts = [each for v in content.values() for each in (v if isinstance(v, list) else [v])]
        if not all(isinstance(each, str) for each in texts):
            raise UnexpectedFilesError(
                f"{path} is neither a list of objects nor an object with captions by image"
            )
        for number, (name, captions) in enumerate(content.items()):
            yield f"{path.name} entry {number}", {"image": name, "captions": captions}
    elif isinstance(content, list):
        for number, row in enumerate(content):
            yield f"{path.name} entry {number}", row
    else:
        raise UnexpectedFilesError(f"{path} is {content!r:.60}, not a list of objects")


def _parquet_rows(path: pathlib.Path) -> Iterator[Row]:
    import pyarrow
    import pyarrow.parquet

    number = 0
    try:
        with pyarrow.parquet.ParquetFile(path) as table:
            for batch in table.iter_batches(_BATCH):
                for row in batch.to_pylist():
                    yield f"{path.name} row {number}", row
                    number += 1
    except (pyarrow.ArrowException, OSError) as error:
        detail = str(error).partition("\n")[0]
        raise UnexpectedFilesError(f"{path} is damaged after row {number:,}: {detail}") from error
