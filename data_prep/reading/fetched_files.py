"""Readers for the output of image downloaders: tar shards, parquet tables, loose files.

The shards are those of img2dataset. Its keys are positions in shards, which are row numbers of the
url list only for some shard sizes, so a sample is identified by its stored url.
"""

import dataclasses
import functools
import gzip
import itertools
import json
import os
import pathlib
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

from data_prep.building.image_check import BadImageError
from data_prep.building.record_counts import LeftOut
from data_prep.reading.folders import is_note

IMAGE_ENDINGS = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff")

TAR_ENDINGS = (".tar", ".tar.gz", ".tgz")
TAR_ERRORS = (tarfile.TarError, OSError, EOFError, zlib.error)

# Rows of a parquet table in memory at once.
_BATCH = 64


@dataclasses.dataclass(frozen=True)
class Fetched:
    """A downloaded image, or a record that it could not be downloaded.

    Attributes:
      where: for reports: shard and member, or file.
      name: file name of the image, with the folders above it; "" in a table.
      url: where it came from; "" if not known.
      caption: the text that the downloader stored with it; "" if there is none.
      error: why there is no image; "" if there is one.
      read: returns the bytes of the image; call it before requesting the next image. Raises
        `BadImageError` if the archive ends before the image does.
      text: content of the text file with the same name beside the image.
    """

    where: str
    name: str
    url: str
    caption: str
    error: str
    read: Callable[[], bytes]
    text: bytes = b""


def read_tar(path: pathlib.Path, where: str) -> Iterator[Fetched | LeftOut]:
    """Reads the samples of a tar: adjacent members whose names are equal up to the first dot.

    Images that are not requested are skipped without reading them.

    Args:
      path: the archive, compressed or not.
      where: its name in reports.

    Yields:
      The samples that have an image; finally, an entry if the archive is truncated or damaged.
    """
    try:
        with open_tar(path) as file, tarfile.open(fileobj=file, mode="r:") as archive:
            for _, members in itertools.groupby(_members(archive), _sample_key):
                endings = {pathlib.PurePosixPath(m.name).suffix.lower(): m for m in members}
                image = next((endings[end] for end in IMAGE_ENDINGS if end in endings), None)
                if image is None:
                    continue
                meta = _parse_json(_read_member(archive, endings.get(".json")))
                yield Fetched(
                    where=f"{where}:{image.name}",
                    name=image.name,
                    url=_text(meta, "url"),
                    caption=_text(meta, "caption"),
                    error="",
                    read=_member_reader(archive, image),
                    text=_read_member(archive, endings.get(".txt")),
                )
            # Readers take damage in the middle for the end; the actual end is a block of zeros.
            archive.fileobj.seek(archive.offset)
            block = archive.fileobj.read(tarfile.BLOCKSIZE)
        if len(block) < tarfile.BLOCKSIZE or any(block):
            detail = f"no valid member at byte {archive.offset:,}"
            yield LeftOut(where, "damaged archive", detail, is_record=False)
    except (*TAR_ERRORS, ValueError) as error:
        yield LeftOut(where, "damaged archive", str(error), is_record=False)


def open_tar(path: pathlib.Path) -> BinaryIO:
    """Opens an archive for random access, decompressing it first if necessary."""
    if path.suffix == ".tar":
        return path.open("rb")
    file = tempfile.TemporaryFile()  # noqa: SIM115
    with gzip.open(path) as packed:
        shutil.copyfileobj(packed, file)
    file.seek(0)
    return file


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
                    image = meta.get(image_column)
                    failed = meta.get("status", "success") != "success"
                    if image or failed or image_column:
                        yield Fetched(
                            where=f"{where} row {row}",
                            name="",
                            url=_text(meta, "url"),
                            caption=_text(meta, "caption"),
                            error="" if image else _text(meta, "error_message") or "not fetched",
                            read=functools.partial(_give, image),
                        )
                    row += 1
    except (pyarrow.ArrowException, OSError) as error:
        detail = str(error).partition("\n")[0]
        yield LeftOut(where, "damaged table", detail, is_record=False)


def has_images(path: pathlib.Path) -> bool:
    """Whether a parquet table has a column of images; False also if it cannot be read."""
    import pyarrow
    import pyarrow.parquet

    try:
        names = pyarrow.parquet.read_schema(path).names
    except (pyarrow.ArrowException, OSError):
        return False
    return any(end[1:] in names for end in IMAGE_ENDINGS)


def read_images(
    parent: pathlib.Path, names: Sequence[str], folder: pathlib.Path, where: str
) -> Iterator[Fetched]:
    """Reads the loose images among the files of one folder.

    A JSON file with the same name as an image may contain its url and caption; a text file may
    contain its captions.

    Args:
      parent: `folder` or one of its subfolders.
      names: names of its files; those without an image extension are skipped.
      folder: the folder that image names are relative to.
      where: its name in reports.
    """
    known = frozenset(names)
    for name in names:
        stem, ending = os.path.splitext(name)
        if ending and ending.lower() not in IMAGE_ENDINGS:
            continue
        path = parent / name
        meta: Mapping[str, Any] = {}
        if f"{stem}.json" in known:
            meta = _parse_json(path.with_suffix(".json").read_bytes())
        text = next((path.with_suffix(e) for e in (".txt", ".TXT") if stem + e in known), None)
        relative = path.relative_to(folder).as_posix()
        yield Fetched(
            where=f"{where}/{relative}",
            name=relative,
            url=_text(meta, "url"),
            caption=_text(meta, "caption"),
            error="",
            read=path.read_bytes,
            text=text.read_bytes() if text is not None else b"",
        )


def _give(image: bytes) -> bytes:
    return image


def _members(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    while (member := archive.next()) is not None:
        archive.members.clear()  # type: ignore[attr-defined]  # else the headers of the whole archive stay in memory
        if member.isfile() and not is_note(pathlib.PurePosixPath(member.name).name):
            yield member


def _sample_key(member: tarfile.TarInfo) -> str:
    folder, _, name = member.name.rpartition("/")
    return f"{folder}/{name.partition('.')[0]}"


def _read_member(archive: tarfile.TarFile, member: tarfile.TarInfo | None) -> bytes:
    file = archive.extractfile(member) if member is not None else None
    return file.read() if file is not None else b""


def _member_reader(archive: tarfile.TarFile, member: tarfile.TarInfo) -> Callable[[], bytes]:
    def read() -> bytes:
        try:
            return _read_member(archive, member)
        except TAR_ERRORS as error:
            raise BadImageError("truncated image", str(error)) from error

    return read


def _parse_json(data: bytes) -> Mapping[str, Any]:
    """Metadata written by a downloader; empty if damaged, so the image has no known url."""
    try:
        meta = json.loads(data) if data else {}
    except ValueError:
        return {}
    return meta if isinstance(meta, dict) else {}


def _text(meta: Mapping[str, Any], name: str) -> str:
    value = meta.get(name)
    return value if isinstance(value, str) else ""
