"""Rows of the tables of a user's folder, and the columns that are read."""

import csv
import dataclasses
import itertools
import pathlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

from data_prep.building.record_counts import LeftOut
from data_prep.captioned_images.options import FILE, ReadingOptions
from data_prep.reading.csv_files import scan_csv
from data_prep.reading.karpathy import read_karpathy_file
from data_prep.reading.text_files import read_json, read_jsonl, read_lines
from xmodal.core.errors import DamagedFileError, UnexpectedFilesError

TABLE_ENDINGS = (".csv", ".tsv", ".jsonl", ".json", ".parquet")
Row = tuple[str, dict[str, Any]]

KARPATHY = "Karpathy's format"
_COCO = "COCO's format"
_IMAGES = ("image", "file_name")
_CAPTIONS = re.compile(r"captions?_?\d*")
_BATCH = 64


@dataclasses.dataclass(frozen=True)
class Table:
    """A table with images and captions.

    Attributes:
      path: path of the file.
      kind: its format, the same for tables that are read as one.
      image: the column of file names or images.
      captions: the columns of captions.
      split: the column of splits; "" if there is none.
      others: columns that are not read.
      embedded: whether the column of images holds their bytes.
    """

    path: pathlib.Path
    kind: str
    image: str
    captions: tuple[str, ...]
    split: str
    others: tuple[str, ...] = ()
    embedded: bool = False

    def __str__(self) -> str:
        """Returns the columns in words."""
        parts = [f"image: {self.image}", f"captions: {', '.join(self.captions)}"]
        parts += [f"split: {self.split}"] * bool(self.split)
        parts += [f"not read: {', '.join(self.others)}"] * bool(self.others)
        return "; ".join(parts)

    def rows(self) -> Iterator[Row | LeftOut]:
        """Yields the place of each row and its values, or why it cannot be read."""
        readers = {KARPATHY: _karpathy_rows, _COCO: _coco_rows}
        return readers.get(self.kind, read_rows)(self.path)


def ending(path: pathlib.Path) -> str:
    """Returns the extension of a file in lower case, ignoring one for compression."""
    return pathlib.PurePath(path.name.lower().removesuffix(".gz")).suffix


def open_table(path: pathlib.Path, options: ReadingOptions) -> Table:
    """Returns a table with images and captions.

    Raises:
      DamagedFileError: the file cannot be read.
      UnexpectedFilesError: it has no columns of images or captions, or two that could be read.
    """
    split = "" if options.split == "none" else options.split or "split"
    if ending(path) == ".json" and isinstance(content := read_json(path), dict):
        images = [each for each in content.get("images") or () if isinstance(each, dict)]
        with_split = split if any(each.get(split) for each in images) else ""
        if any("sentences" in each for each in images):
            return Table(path, KARPATHY, "image", ("captions",), with_split)
        notes = content.get("annotations") or ()
        if images and any(isinstance(each, dict) and "caption" in each for each in notes):
            return Table(path, _COCO, "image", ("captions",), with_split)
        raise UnexpectedFilesError(
            f"{path} is an object with the keys {', '.join(map(repr, [*content][:3]))}, which is "
            "neither in COCO's nor in Karpathy's format: write a list of objects with the keys "
            "'image' and 'caption'"
        )
    names, bytes_in = _column_names(path)
    usual = {name: name.strip().lower().replace(" ", "_") for name in names}
    images = [options.image] if options.image else [n for n in names if usual[n] in _IMAGES]
    if embedded := [name for name in images if name in bytes_in]:
        images = embedded
    captions = options.captions or tuple(n for n in names if _CAPTIONS.fullmatch(usual[n]))
    splits = [name for name in names if split and split in (name, usual[name])]
    splits = splits or [split] * bool(options.split and split)
    for key, found in {"image": images, "captions": captions, "split": splits}.items():
        if lost := [name for name in found if name not in names]:
            raise UnexpectedFilesError(
                f"{path} has no column {lost[0]!r}, as named in {FILE}; its columns are "
                f"{', '.join(map(repr, names))}"
            )
        if len(found) > 1 and key != "captions":
            raise UnexpectedFilesError(
                f"{path} has the columns {found[0]!r} and {found[1]!r}: choose one with "
                f'{{"{key}": "{found[0]}"}} in {FILE}'
            )
        if not found and key != "split":
            documented = " or ".join(_IMAGES) if key == "image" else "caption, captions, caption_1"
            raise UnexpectedFilesError(
                f"{path} has no column {documented}; its columns are "
                f'{", ".join(map(repr, names))}: rename one, or name it with {{"{key}": "COLUMN"}} '
                f"in {FILE} in the same folder"
            )
    read = {*images, *captions, *splits}
    if twice := [name for name in names if name in read and names.count(name) > 1]:
        raise UnexpectedFilesError(f"{path} has several columns {twice[0]!r}; rename them")
    others = tuple(name for name in names if name and name not in read)
    kind = "a table with the images" if embedded else "a table of files"
    return Table(path, kind, images[0], captions, "".join(splits), others, bool(embedded))


def read_rows(path: pathlib.Path) -> Iterator[Row | LeftOut]:
    """Yields the place of each row of a table and its values, or why it cannot be read.

    Args:
      path: a CSV, TSV, JSON lines, JSON or Parquet file; see `TABLE_ENDINGS`.
    """
    if ending(path) == ".parquet":
        yield from _parquet_rows(path)
    elif ending(path) in (".json", ".jsonl"):
        for where, row in _json_rows(path):
            is_row = isinstance(row, dict)
            yield (where, row) if is_row else LeftOut(where, "not a JSON object", f"{row!r:.60}")
    else:
        delimiter, names = _header(path)
        # Between tabs, quotes belong to the text.
        rows = scan_csv(path, columns=names, delimiter=delimiter, quotes=delimiter != "\t")
        for row in rows:
            # Spreadsheets write delimiters for empty rows.
            if isinstance(row, LeftOut) or "".join(row[1].values()).strip():
                yield row


def _column_names(path: pathlib.Path) -> tuple[Sequence[str], Sequence[str]]:
    """The columns of a table, and those that hold bytes or structs of bytes."""
    if ending(path) == ".parquet":
        schema = parquet_schema(path)
        return schema.names, [each.name for each in schema if "binary" in str(each.type)]
    if ending(path) in (".json", ".jsonl"):
        rows = (row for _, row in itertools.islice(_json_rows(path), 1000))
        found = itertools.chain.from_iterable(row for row in rows if isinstance(row, dict))
        return list(dict.fromkeys(found)), ()
    return _header(path)[1], ()


def _header(path: pathlib.Path) -> tuple[str, list[str]]:
    """The delimiter of a text table, and the names of its columns."""
    start = next(read_lines(path), b"")
    try:
        line = start.decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError:
        line = "\0"
    if "\0" in line:
        raise DamagedFileError(f"{path} line 1, its header, is not UTF-8; save the file as UTF-8")
    delimiter = "\t" if ending(path) == ".tsv" else max(",;", key=line.count)
    return delimiter, next(csv.reader([line], delimiter=delimiter), [])


def _json_rows(path: pathlib.Path) -> Iterator[tuple[str, Any]]:
    if ending(path) == ".jsonl":
        yield from read_jsonl(path)
        return
    content = read_json(path)
    if not isinstance(content, list):
        raise UnexpectedFilesError(f"{path} is {content!r:.60}, not a list of objects")
    for number, row in enumerate(content):
        yield f"{path.name} entry {number}", row


def parquet_schema(path: pathlib.Path) -> Any:
    """Returns the schema of a table.

    Raises:
      DamagedFileError: the file is truncated or not a Parquet table.
    """
    import pyarrow
    import pyarrow.parquet

    try:
        return pyarrow.parquet.read_schema(path)
    except (pyarrow.ArrowException, OSError) as error:
        detail = str(error).partition("\n")[0]
        raise DamagedFileError(f"{path} is truncated or not a Parquet table: {detail}") from error


def _parquet_rows(path: pathlib.Path) -> Iterator[Row]:
    import pyarrow
    import pyarrow.parquet

    number = itertools.count()
    try:
        with pyarrow.parquet.ParquetFile(path) as table:
            for batch in table.iter_batches(_BATCH):
                for row in batch.to_pylist():
                    yield f"{path.name} row {next(number)}", row
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DamagedFileError(f"{path} is damaged after row {next(number):,}: {error}") from error


def _karpathy_rows(path: pathlib.Path) -> Iterator[Row]:
    for split, photographs in read_karpathy_file(path, has_ids=False).items():
        for photograph in photographs:
            name = "/".join(filter(None, (photograph.folder, photograph.name)))
            captions = [text for _, text in photograph.captions]
            yield f"{path.name} {name}", {"image": name, "captions": captions, "split": split}


def _coco_rows(path: pathlib.Path) -> Iterator[Row | LeftOut]:
    """A row per image, with its captions in the order of the file."""
    content = read_json(path)
    captions: dict[str, list[Any]] = {}
    for number, image in enumerate(content["images"]):
        where = f"{path}: image {number}"
        if not isinstance(image, dict) or not {"id", "file_name"} <= image.keys():
            raise UnexpectedFilesError(f"{where} is {image!r:.60}, without id and file_name")
        if captions.setdefault(_id(image["id"]), []):
            raise UnexpectedFilesError(f"{where}: another image has the id {image['id']!r} as well")
        captions[_id(image["id"])].append(image)
    for number, note in enumerate(content["annotations"]):
        key = note.get("image_id") if isinstance(note, dict) else None
        if _id(key) in captions:
            captions[_id(key)].append(note.get("caption"))
        else:
            detail = f"no image has the id {key!r:.60}"
            yield LeftOut(f"{path.name} annotation {number}", "no image", detail)
    for image, *texts in captions.values():
        where = f"{path.name} image {image['id']}"
        yield where, {**image, "image": image["file_name"], "captions": texts}


def _id(value: Any) -> str:
    """An id as text, since some writers make texts or decimals of numbers."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
