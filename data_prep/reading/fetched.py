"""Pictures with texts: loose files, tar shards, and Parquet tables, as img2dataset writes them.

Nothing is downloaded. img2dataset's keys are positions in shards, which are row numbers of the url
list only for some shard sizes, so a sample is identified by its stored url.
"""

import collections
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

from data_prep.building.record_counts import BadImageError, LeftOut
from data_prep.reading.picture_names import composed, is_unread_picture, read_picture
from xmodal.core.folders import is_note, walk
from xmodal.core.untrusted.picture_formats import IMAGE_ENDINGS, is_picture

SIDECAR_ENDINGS = (".txt", ".json")
TAR_ERRORS = (tarfile.TarError, zlib.error, EOFError, OSError)
TAR_ENDINGS = (".tar", ".tar.gz", ".tgz")
# Rows of a parquet table in memory at once.
_BATCH = 64


@dataclasses.dataclass(frozen=True)
class Fetched:
    """A picture, or a downloader's record that there is none.

    Attributes:
      where: for reports: shard and member, or file.
      name: file name of the image, with the folders above it, a shard among them; "" in a table.
      meta: data stored with it: the content of a JSON file, or a row without the image.
      error: why there is no image; "" if there is one.
      read: returns the bytes of the image; call it before requesting the next image. Raises
        `BadImageError` if the archive ends before the image does.
      text: content of the text file with the same name beside the image.
      fault: why its texts are not read; "" if they are.
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
        return str(self.meta.get("url") or "")


@dataclasses.dataclass(frozen=True)
class FetchedPart:
    """A shard, a table, or the loose images of one folder, which can be read independently.

    Attributes:
      folder: the output of the downloader.
      path: path of the part in that folder.
    """

    folder: pathlib.Path
    path: pathlib.Path

    def read(self) -> Iterator[Fetched | LeftOut]:
        """Yields its pictures, links that could not be downloaded, and damage of a shard."""
        if self.path.is_dir():
            return read_images(self.path, next(walk(self.path))[1], self.folder)
        where = f"{self.folder.name}/{self.path.relative_to(self.folder).as_posix()}"
        reader = _read_table if self.path.suffix.lower() == ".parquet" else read_tar
        return reader(self.path, where)


def fetched_parts(folder: pathlib.Path) -> list[FetchedPart]:
    """Returns the parts of the output of a downloader: sorted shards and tables, then folders.

    - img2dataset `webdataset`: `00000.tar`, ... with the tables `00000.parquet`, ... beside them;
    - img2dataset `parquet`: `00000.parquet`, ... with the images in the column `jpg`;
    - img2dataset `files`: folders `00000/`, ... of images, each with a json file;
    - images in the folder itself or in subfolders, under names that a dataset defines.
    """
    files = list(walk(folder))
    shards = sorted(
        parent / name
        for parent, names in files
        for name in names
        if name.lower().endswith((*TAR_ENDINGS, ".parquet"))
    )
    return [FetchedPart(folder, path) for path in (*shards, *(parent for parent, _ in files))]


def _read_table(path: pathlib.Path, where: str) -> Iterator[Fetched | LeftOut]:
    """Reads a parquet table of samples, or the one beside a shard, which has only their status.

    Of a table without images, only the samples that could not be fetched are returned; the others
    are in its shard.
    """
    import pyarrow
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(path) as table:
            binary = [each.name for each in table.schema_arrow if "binary" in str(each.type)]
            column = next((end[1:] for end in IMAGE_ENDINGS if end[1:] in binary), "")
            wanted = {"url", "caption", "status", "error_message", column}
            columns = [name for name in table.schema_arrow.names if name in wanted]
            batches = table.iter_batches(_BATCH, columns=columns)
            rows = itertools.chain.from_iterable(batch.to_pylist() for batch in batches)
            for number, meta in enumerate(rows):
                image = meta.pop(column, None)
                if column or meta.get("status", "success") != "success":
                    error = "" if image else str(meta.get("error_message") or "not fetched")
                    read = functools.partial(bytes, image)
                    yield Fetched(f"{where} row {number}", "", meta, error, read)
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        detail = str(error).partition("\n")[0]
        yield LeftOut(where, "damaged table", detail, is_record=False)


def read_images(
    parent: pathlib.Path, names: Sequence[str], folder: pathlib.Path
) -> Iterator[Fetched]:
    """Yields the loose images among the files of one folder.

    A JSON file with the same name as an image may contain its url and captions; a text file may
    contain its captions.

    Args:
      parent: `folder` or one of its subfolders.
      names: names of its files; those without an image extension are skipped.
      folder: the folder that image names are relative to.
    """
    found = texts_of_images(names)
    shared = collections.Counter(text for texts in found.values() for text in texts)
    for name, texts in found.items():
        relative = (parent / name).relative_to(folder).as_posix()
        of_ending = {os.path.splitext(each)[1].lower(): parent / each for each in texts}
        text, encoded = (
            of_ending[each].read_bytes() if each in of_ending else b"" for each in SIDECAR_ENDINGS
        )
        meta, fault = read_meta(encoded or b"{}")
        if len(of_ending) < len(texts):
            fault = f"{' and '.join(texts)} are about the same image"
        elif twice := [text for text in texts if shared[text] > 1]:
            fault = f"{twice[0]} is about several images"
        read = functools.partial(read_picture, parent / name)
        yield Fetched(f"{folder.name}/{relative}", relative, meta, "", read, text, fault)


def texts_of_images(names: Sequence[str]) -> dict[str, list[str]]:
    """Returns the text and JSON files about every image, by its name.

    They have the name of the image with another ending, or after its ending: photo.txt and
    photo.jpg.txt are about photo.jpg.

    Args:
      names: names or paths of files; those without an ending may be images.
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


def read_meta(data: bytes) -> tuple[Mapping[str, Any], str]:
    """Returns the object in a JSON file beside an image and "", or {} and why it has none."""
    try:
        meta = json.loads(data)
    except ValueError as error:
        return {}, str(error)
    return (meta, "") if isinstance(meta, dict) else ({}, f"it is no object: {meta!s:.60}")


def open_tar(path: pathlib.Path) -> BinaryIO:
    """Opens an archive for random access, decompressing it first if necessary."""
    if path.suffix.lower() == ".tar":
        return path.open("rb")
    file = tempfile.TemporaryFile()  # noqa: SIM115
    with path.open("rb") as packed:
        shutil.copyfileobj(gzip.GzipFile(fileobj=packed), file)
    file.seek(0)
    return file


def tar_members(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Yields the files of an archive without notes; their headers do not stay in memory."""
    while (member := archive.next()) is not None:
        archive.members.clear()  # type: ignore[attr-defined]
        if member.isfile() and not is_note(member.name):
            yield member


def read_tar(path: pathlib.Path, where: str) -> Iterator[Fetched | LeftOut]:
    """Yields the samples of a tar, as img2dataset and WebDataset write them.

    A sample is a picture and files about it: adjacent members whose names are equal up to the first
    dot after the folders. Images that are not requested are skipped without reading them.

    Args:
      path: the archive, compressed or not.
      where: its name in reports.

    Yields:
      The samples that have an image; the others, and members that are not read, with the reason;
      finally, an entry if the archive is truncated or damaged.
    """
    seen = set[str]()
    try:
        with open_tar(path) as file, tarfile.open(fileobj=file, mode="r:") as archive:
            for key, members in itertools.groupby(tar_members(archive), _key):
                yield from _read_sample(file, where, list(members), key in seen)
                seen.add(key)
            # Readers take damage in the middle for the end; the actual end is a block of zeros.
            file.seek(archive.offset)
            if file.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
                raise tarfile.ReadError(f"no valid member at byte {archive.offset:,}")
    except (*TAR_ERRORS, ValueError) as error:
        yield LeftOut(where, "damaged archive", str(error), is_record=False)


def _key(member: tarfile.TarInfo) -> str:
    folder, _, name = member.name.rpartition("/")
    return composed(f"{folder}/{name.partition('.')[0]}")


def _read_sample(
    file: BinaryIO, where: str, members: Sequence[tarfile.TarInfo], is_second: bool
) -> Iterator[Fetched | LeftOut]:
    """Yields a sample, or why it cannot be read; and its members that are not read."""
    pictures = [member for member in members if is_picture(member.name)]
    texts, metas = (
        [member for member in members if member.name.lower().endswith(ending)]
        for ending in SIDECAR_ENDINGS
    )
    shown = " and ".join(member.name for member in members[:3])
    if is_second:
        fault = "files of a sample are not adjacent", shown
    elif max(len(pictures), len(texts), len(metas)) > 1:
        detail = f"{shown}: the key of a sample ends at the first dot of its names"
        fault = "several pictures or texts in a sample", detail
    elif not pictures:
        is_unread = any(is_unread_picture(member.name) for member in members)
        fault = "unread ending" if is_unread else "no image", f"the sample has {shown}"
    else:
        for member in members:
            if member not in pictures + texts + metas:
                ending = pathlib.PurePosixPath(member.name).suffix or "none"
                yield LeftOut(f"{where}:{member.name}", "unread ending", ending, is_record=False)
        text, encoded = (read_member_at(file, each[0]) if each else b"" for each in (texts, metas))
        meta, unread = read_meta(encoded or b"{}")
        name = pictures[0].name
        read = functools.partial(read_member_at, file, pictures[0])
        yield Fetched(f"{where}:{name}", f"{where}/{name}", meta, "", read, text, unread)
        return
    for member in pictures or members[:1]:
        yield LeftOut(f"{where}:{member.name}", *fault)


def read_member_at(file: BinaryIO, member: tarfile.TarInfo) -> bytes:
    """Returns the content of a member of an open archive.

    Raises:
      BadImageError: the archive ends before.
    """
    if member.offset_data + member.size > file.seek(0, os.SEEK_END):
        raise BadImageError("truncated image", f"its {member.size:,} bytes are not all there")
    file.seek(member.offset_data)
    return file.read(member.size)
