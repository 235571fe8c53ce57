"""Samples of tar shards, as img2dataset and WebDataset write them.

A sample is a picture and files about it: adjacent members whose names are equal up to the first
dot after the folders.
"""

import functools
import gzip
import itertools
import pathlib
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from typing import BinaryIO, NamedTuple

from data_prep.building.record_counts import LeftOut
from data_prep.reading.fetched_files import Fetched, read_meta
from xmodal.core.errors import BadImageError
from xmodal.core.folders import is_note
from xmodal.core.picture_names import composed, is_picture, is_unread_picture
from xmodal.core.untrusted.archives import TAR_ERRORS, read_part, tar_members

TAR_ENDINGS = (".tar", ".tar.gz", ".tgz")


class _Member(NamedTuple):
    """A file in an archive: its name, where its content starts, and how long it is."""

    name: str
    start: int
    size: int


def open_tar(path: pathlib.Path) -> BinaryIO:
    """Opens an archive for random access, decompressing it first if necessary."""
    if path.suffix.lower() == ".tar":
        return path.open("rb")
    file = tempfile.TemporaryFile()  # noqa: SIM115
    with path.open("rb") as packed:
        shutil.copyfileobj(gzip.GzipFile(fileobj=packed), file)
    file.seek(0)
    return file


def read_tar(path: pathlib.Path, where: str) -> Iterator[Fetched | LeftOut]:
    """Reads the samples of a tar.

    Images that are not requested are skipped without reading them.

    Args:
      path: the archive, compressed or not.
      where: its name in reports.

    Yields:
      The samples that have an image; the others, and members that are not read, with the reason;
      finally, an entry if the archive is truncated or damaged.
    """
    samples: dict[str, list[_Member]] = {}
    scattered = set[str]()
    damage = ""
    try:
        with open_tar(path) as file:
            damage = _collect(file, samples, scattered)
            for key, members in samples.items():
                yield from _read_sample(file, where, members, key in scattered)
    except (*TAR_ERRORS, ValueError) as error:
        damage = str(error)
    if damage:
        yield LeftOut(where, "damaged archive", damage, is_record=False)


def _collect(file: BinaryIO, samples: dict[str, list[_Member]], scattered: set[str]) -> str:
    """Adds the samples of an archive, and returns its damage; the last one before it is lost."""
    key = None
    try:
        with tarfile.open(fileobj=file, mode="r:") as archive:
            files = (
                _Member(member.name, member.offset_data, member.size)
                for member in tar_members(archive)
                if member.isfile() and not is_note(member.name)
            )
            for key, members in itertools.groupby(files, _key):
                if key in samples:
                    scattered.add(key)
                own = samples.setdefault(key, [])
                own.extend(members)
            # Readers take damage in the middle for the end; the actual end is a block of zeros.
            file.seek(archive.offset)
            block = file.read(tarfile.BLOCKSIZE)
            is_end = len(block) == tarfile.BLOCKSIZE and not any(block)
            return "" if is_end else f"no valid member at byte {archive.offset:,}"
    except TAR_ERRORS as error:
        samples.pop(key or "", None)
        return str(error)


def _key(member: _Member) -> str:
    folder, _, name = member.name.rpartition("/")
    return composed(f"{folder}/{name.partition('.')[0]}")


def _read_sample(
    file: BinaryIO, where: str, members: Sequence[_Member], is_scattered: bool
) -> Iterator[Fetched | LeftOut]:
    """Yields a sample, or why it cannot be read; and its members that are not read."""
    pictures = [member for member in members if is_picture(member.name)]
    texts, metas = (
        [member for member in members if member.name.lower().endswith(ending)]
        for ending in (".txt", ".json")
    )
    shown = " and ".join(member.name for member in members[:3])
    if is_scattered:
        fault = "files of a sample are not adjacent", shown
    elif max(len(pictures), len(texts), len(metas)) > 1:
        detail = f"{shown}: the key of a sample ends at the first dot of its names"
        fault = "several pictures or texts in a sample", detail
    elif not pictures and any(is_unread_picture(member.name) for member in members):
        fault = "unread ending", shown
    elif not pictures:
        fault = "no image", f"the sample has {shown}"
    else:
        for member in members:
            if member not in pictures + texts + metas:
                ending = pathlib.PurePosixPath(member.name).suffix or "none"
                yield LeftOut(f"{where}:{member.name}", "unread ending", ending, is_record=False)
        meta, unread = read_meta(_read(file, metas[0]) if metas else b"{}")
        yield Fetched(
            where=f"{where}:{pictures[0].name}",
            name=f"{where}/{pictures[0].name}",
            meta=meta,
            error="",
            read=functools.partial(_read, file, pictures[0]),
            text=_read(file, texts[0]) if texts else b"",
            fault=unread,
        )
        return
    for member in pictures or members[:1]:
        yield LeftOut(f"{where}:{member.name}", *fault)


def _read(file: BinaryIO, member: _Member) -> bytes:
    return read_member_at(file, member.start, member.size)


def read_member_at(file: BinaryIO, start: int, size: int) -> bytes:
    """Returns the content of a member of an open archive.

    Raises:
      BadImageError: the archive ends before.
    """
    content = read_part(file, start, size)
    if content is None:
        raise BadImageError("truncated image", f"its {size:,} bytes are not all there")
    return content
