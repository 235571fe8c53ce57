"""Readers for the output of image downloaders: parquet tables and loose files; see `tar_samples`.

The files are those of img2dataset. Its keys are positions in shards, which are row numbers of the
url list only for some shard sizes, so a sample is identified by its stored url.
"""

import collections
import dataclasses
import functools
import os
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from data_prep.building.record_counts import LeftOut
from xmodal.core.errors import BadImageError
from xmodal.core.picture_names import (
    IMAGE_ENDINGS,
    composed,
    is_picture,
    read_picture,
)
from xmodal.core.untrusted.json_text import parse_json_text

SIDECAR_ENDINGS = (".txt", ".json")
_JSON_KINDS = {list: "list", str: "text", bool: "truth value", type(None): "null"}
# Rows of a parquet table in memory at once.
_BATCH = 64


@dataclasses.dataclass(frozen=True)
class Fetched:
    """A downloaded image, or a record that it could not be downloaded.

    Attributes:
      where: for reports: shard and member, or file.
      name: file name of the image, with the folders above it, a shard among them; "" in a table.
      meta: data stored with it: the content of a JSON file, or a row without the image.
      fault: why its JSON file is not read; "" if it is.
      error: why there is no image; "" if there is one.
      read: returns the bytes of the image; call it before requesting the next image. Raises
        `BadImageError` if the archive ends before the image does.
      text: content of the text file with the same name beside the image.
    """

    where: str
    name: str
    meta: Mapping[str, Any]
    error: str
    read: Callable[[], bytes]
    text: bytes = b""
    fault: str = ""

    @property
    def url(self) -> str:
        """Where it came from; "" if not known."""
        return _text(self.meta, "url")


def read_table(path: pathlib.Path, where: str) -> Iterator[Fetched | LeftOut]:
    """Reads a parquet table of samples, or the one beside a shard, which has only their status.

    Args:
      path: the table, with the column `url` and, if it contains the images, one named after their
        format, such as `jpg`. `caption`, `status` and `error_message` are optional.
      where: its name in reports.

    Yields:
      The samples with an image in the table, and those that could not be fetched. For a table
      without images, the others are in its shard. Finally, an entry if the file is damaged.
    """
    import pyarrow
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(path) as table:
            names = table.schema_arrow.names
            image_column = next((end[1:] for end in IMAGE_ENDINGS if end[1:] in names), None)
            wanted = {"url", "caption", "status", "error_message", image_column}
            columns = [name for name in names if name in wanted]
            row = 0
            for batch in table.iter_batches(_BATCH, columns=columns):
                for meta in batch.to_pylist():
                    image: Any = meta.get(image_column or "")
                    failed = meta.get("status", "success") != "success"
                    if image or failed or image_column:
                        yield Fetched(
                            where=f"{where} row {row}",
                            name="",
                            meta={name: v for name, v in meta.items() if name != image_column},
                            error="" if image else _text(meta, "error_message") or "not fetched",
                            read=functools.partial(_give, image),
                        )
                    row += 1
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        detail = str(error).partition("\n")[0]
        yield LeftOut(where, "damaged table", detail, is_record=False)


def read_images(
    parent: pathlib.Path, names: Sequence[str], folder: pathlib.Path, where: str
) -> Iterator[Fetched]:
    """Reads the loose images among the files of one folder.

    A JSON file with the same name as an image may contain its url and captions; a text file may
    contain its captions.

    Args:
      parent: `folder` or one of its subfolders.
      names: names of its files; those without an image extension are skipped.
      folder: the folder that image names are relative to.
      where: its name in reports.
    """
    found = texts_of_images(names)
    shared = collections.Counter(text for texts in found.values() for text in texts)
    for name, texts in found.items():
        path = parent / name
        relative = path.relative_to(folder).as_posix()
        beside = {os.path.splitext(each)[1].lower(): parent / each for each in texts}
        present = {ending: each.read_bytes() for ending, each in beside.items() if each.is_file()}
        meta, fault = read_meta(present.get(".json", b"{}"))
        if len(beside) < len(texts):
            fault = f"{' and '.join(texts)} are about the same image"
        elif twice := [text for text in texts if shared[text] > 1]:
            fault = f"{twice[0]} is about several images"
        yield Fetched(
            where=f"{where}/{relative}",
            name=relative,
            meta=meta,
            error="",
            read=functools.partial(read_picture, path),
            text=present.get(".txt", b""),
            fault=fault,
        )


def texts_of_images(names: Sequence[str]) -> dict[str, list[str]]:
    """Returns the text and JSON files about every image of a folder, by its name.

    They have the name of the image with another ending, or after its ending: photo.txt and
    photo.jpg.txt are about photo.jpg.

    Args:
      names: names of the files of the folder; those without an ending may be images.
    """
    texts: dict[str, list[str]] = collections.defaultdict(list)
    for name in names:
        stem, ending = os.path.splitext(composed(name))
        if ending.lower() in SIDECAR_ENDINGS:
            texts[stem].append(name)
    found: dict[str, list[str]] = {}
    for name in names:
        stem, ending = os.path.splitext(composed(name))
        if not ending or is_picture(name):
            found[name] = [*texts[stem], *(texts[composed(name)] if ending else [])]
    return found


def _give(image: Any) -> bytes:
    # Pillow would open a text as the path of a file on this machine.
    if not isinstance(image, bytes):
        raise BadImageError("not an image", f"a {type(image).__name__} in place of its bytes")
    return image


def read_meta(data: bytes) -> tuple[Mapping[str, Any], str]:
    """Returns the object in a JSON file beside an image and "", or {} and why it has none."""
    try:
        meta = parse_json_text(data)
    except ValueError as error:
        return {}, str(error)
    if isinstance(meta, dict):
        return meta, ""
    kind = _JSON_KINDS.get(type(meta), "number")
    return {}, f"it is a {kind}, not an object: {meta!s:.60}"


def _text(meta: Mapping[str, Any], name: str) -> str:
    value = meta.get(name)
    return value if isinstance(value, str) else ""
