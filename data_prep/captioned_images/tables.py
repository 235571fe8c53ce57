"""Rows of the tables of a user's folder, and the columns that are read."""

import csv
import dataclasses
import itertools
import pathlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

from data_prep.building.record_counts import LeftOut
from data_prep.captioned_images.captioned_pictures import FILE, ReadingOptions
from data_prep.reading.csv_files import scan_csv
from data_prep.reading.published_files import WRONG_FORM, wrong_form
from data_prep.reading.text_files import DamagedFileError, read_json, read_jsonl, read_lines
from xmodal.core.errors import UnexpectedFilesError

TABLE_ENDINGS = (".csv", ".tsv", ".jsonl", ".json", ".parquet")
Row = tuple[str, dict[str, Any]]

_KARPATHY = "a file in Karpathy's format"
_COCO = "a file in COCO's format"
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
        readers = {_KARPATHY: _karpathy_rows, _COCO: _coco_rows}
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
        return _open_annotations(path, content, split)
    names, binary = _column_names(path)
    usual = {name: name.strip().lower().replace(" ", "_") for name in names}
    images = [options.image] if options.image else [n for n in names if usual[n] in _IMAGES]
    images = [name for name in images if name in binary] or images
    captions = options.captions or tuple(n for n in names if _CAPTIONS.fullmatch(usual[n]))
    splits = [name for name in names if split and split in (name, usual[name])]
    splits = splits or [split] * bool(options.split and split)
    read = [*images, *captions, *splits]
    is_clear = len(images) == 1 and captions and len(splits) < 2
    if not is_clear or any(names.count(name) != 1 for name in read):
        raise UnexpectedFilesError(
            f"{path} must have one column image or file_name, columns caption, captions, "
            f"caption_1, ..., and at most one split; its columns are {', '.join(map(repr, names))}."
            f' Rename them, or name those to read in {FILE} in the same folder: {{"image": '
            '"COLUMN", "captions": ["COLUMN"]}; those of hf:NAME as in '
            "hf:NAME?image=COLUMN&captions=COLUMN,COLUMN"
        )
    others = tuple(name for name in names if name and name not in read)
    embedded = images[0] in binary
    kind = "Parquet with images and captions" if embedded else "a table of file names and captions"
    return Table(path, kind, images[0], captions, "".join(splits), others, embedded)


def _open_annotations(path: pathlib.Path, content: dict[str, Any], split: str) -> Table:
    """Returns a file in COCO's or Karpathy's format."""
    images, notes = (
        [each for each in content.get(name) or () if isinstance(each, dict)]
        for name in ("images", "annotations")
    )
    with_split = split if any(each.get(split) for each in images) else ""
    if any("sentences" in each for each in images):
        return Table(path, _KARPATHY, "image", ("captions",), with_split)
    if images and any("caption" in each for each in notes):
        return Table(path, _COCO, "image", ("captions",), with_split)
    raise UnexpectedFilesError(
        f"{path} is an object with the keys {', '.join(map(repr, [*content][:3]))}, which is "
        "neither in COCO's nor in Karpathy's format: write a list of objects with the keys "
        "'image' and 'caption'"
    )


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
        for row in scan_csv(path, names, delimiter, header=True, quotes=delimiter != "\t"):
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
    line = next(read_lines(path), b"").decode("utf-8-sig", "replace").rstrip("\r\n")
    delimiter = "\t" if ending(path) == ".tsv" else max(",;", key=line.count)
    return delimiter, next(csv.reader([line], delimiter=delimiter), [])


def _json_rows(path: pathlib.Path) -> Iterator[tuple[str, Any]]:
    if ending(path) == ".jsonl":
        yield from read_jsonl(path)
        return
    content = read_json(path)
    for number, row in enumerate(content if isinstance(content, list) else [content]):
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

    try:
        with pyarrow.parquet.ParquetFile(path) as table:
            batches = (batch.to_pylist() for batch in table.iter_batches(_BATCH))
            for number, row in enumerate(itertools.chain.from_iterable(batches)):
                yield f"{path.name} row {number}", row
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DamagedFileError(f"{path} is damaged: {error}") from error


def _karpathy_rows(path: pathlib.Path) -> Iterator[Row]:
    try:
        for image in read_json(path)["images"]:
            name = "/".join(filter(None, (image.get("filepath"), image["filename"])))
            captions = [each["raw"] for each in image["sentences"]]
            yield f"{path.name} {name}", {**image, "image": name, "captions": captions}
    except WRONG_FORM as error:
        raise wrong_form(str(path), error) from error


def _coco_rows(path: pathlib.Path) -> Iterator[Row | LeftOut]:
    """A row per image, with its captions in the order of the file."""
    content = read_json(path)
    try:
        rows = {
            each["id"]: {**each, "image": each["file_name"], "captions": []}
            for each in content["images"]
        }
        if len(rows) < len(content["images"]):
            raise ValueError("two images have the same id")
        for number, note in enumerate(content["annotations"]):
            if note["image_id"] in rows:
                rows[note["image_id"]]["captions"].append(note["caption"])
            else:
                detail = f"no image has the id {note['image_id']!r:.60}"
                yield LeftOut(f"{path.name} annotation {number}", "no image", detail)
    except WRONG_FORM as error:
        raise wrong_form(str(path), error) from error
    for number, row in rows.items():
        yield f"{path.name} image {number}", row
