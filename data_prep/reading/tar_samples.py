"""Samples of tar shards, as img2dataset and WebDataset write them.

A sample is a picture and files about it: adjacent members whose names are equal up to the first
dot after the folders.
"""

import contextlib
import dataclasses
import itertools
import pathlib
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import BinaryIO

from data_prep.building.record_counts import LeftOut
from data_prep.reading.fetched_files import Fetched, read_meta
from xmodal.core.errors import BadImageError
from xmodal.core.folders import is_note
from xmodal.core.picture_names import composed, is_picture, is_unread_picture
from xmodal.core.untrusted.archives import TAR_ERRORS, open_gzip, read_part, tar_members

TAR_ENDINGS = (".tar", ".tar.gz", ".tgz")

_LINK = -1


def open_tar(path: pathlib.Path) -> BinaryIO:
    """Opens an archive for random access, decompressing it first if necessary."""
    if path.suffix.lower() == ".tar":
        return path.open("rb")
    file = tempfile.TemporaryFile()  # noqa: SIM115
    with path.open("rb") as packed:
        shutil.copyfileobj(open_gzip(packed), file)
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
    damage = ""
    try:
        with open_tar(path) as file:
            samples, damage = _samples(file)
            names = {_last(picture.name) for sample in samples for picture in sample.with_ending()}
            for sample in samples:
                yield from sample.read(file, where, names)
    except (*TAR_ERRORS, ValueError) as error:
        damage = str(error)
    if damage:
        yield LeftOut(where, "damaged archive", damage, is_record=False)


def captioned_sample(path: pathlib.Path, is_caption: Callable[[str, bytes], bool]) -> str:
    """Returns two members of the first sample with a picture and its captions, or "".

    Args:
      path: the archive, compressed or not.
      is_caption: whether a text or JSON file, given by name and content, has captions.
    """
    with contextlib.suppress(*TAR_ERRORS, BadImageError), open_tar(path) as file:
        for sample in _samples(file)[0]:
            pictures, texts = sample.with_ending(), sample.with_ending(".txt", ".json")
            for text in texts if pictures else ():
                if text.size == _LINK or is_caption(text.name, text.read(file)):
                    return f"{pictures[0].name} and {text.name}"
    return ""


@dataclasses.dataclass(frozen=True)
class _Member:
    """A file in an archive: its name, and where its content starts and how long it is.

    A link to another member has the size `_LINK` and no content.
    """

    name: str
    start: int
    size: int

    def read(self, file: BinaryIO) -> bytes:
        content = read_part(file, self.start, self.size)
        if content is None:
            raise BadImageError("truncated image", f"its {self.size:,} bytes are not all there")
        return content


@dataclasses.dataclass(frozen=True)
class _Sample:
    """The members with one key.

    Attributes:
      members: in the order of the archive.
      is_whole: whether they are adjacent.
    """

    members: Sequence[_Member]
    is_whole: bool

    def with_ending(self, *endings: str) -> list[_Member]:
        """The members with one of the endings; without any, the pictures."""
        return [
            member
            for member in self.members
            if (member.name.lower().endswith(endings) if endings else is_picture(member.name))
        ]

    def read(
        self, file: BinaryIO, where: str, pictures_of_all: Collection[str]
    ) -> Iterator[Fetched | LeftOut]:
        """Yields the sample, or why it cannot be read; and its members that are not read."""
        pictures, texts = self.with_ending(), self.with_ending(".txt")
        metas = self.with_ending(".json")
        if fault := self._fault(pictures, texts, metas):
            for member in pictures or self.members[:1]:
                yield LeftOut(f"{where}:{member.name}", *fault)
            return
        for member in self.members:
            if member not in pictures + texts + metas:
                ending = pathlib.PurePosixPath(member.name).suffix or "none"
                yield LeftOut(f"{where}:{member.name}", "unread ending", ending, is_record=False)
        (picture,) = pictures
        meta, fault = read_meta(metas[0].read(file) if metas else b"{}")
        named = _last(str(meta.get("file_name", "")))
        if named != _last(picture.name) and named in pictures_of_all:
            detail = f"the file_name in {metas[0].name} is {named}"
            yield LeftOut(f"{where}:{picture.name}", "JSON file names another picture", detail)
            return
        yield Fetched(
            where=f"{where}:{picture.name}",
            name=f"{where}/{picture.name}",
            meta=meta,
            error="",
            read=_reader(file, picture),
            text=texts[0].read(file) if texts else b"",
            fault=fault,
        )

    def _fault(self, *roles: Sequence[_Member]) -> tuple[str, str] | None:
        """Reason and detail if the members are not one picture with its files."""
        names = [member.name for member in self.members]
        if not self.is_whole:
            return "files of a sample are not adjacent", " and ".join((names[0], names[-1]))
        if links := [member.name for member in self.members if member.size == _LINK]:
            return "link in an archive", f"{links[0]} has no content"
        for members, kind in zip(roles, ("pictures", "texts", "JSON files"), strict=True):
            if len(members) > 1:
                both = f"{members[0].name} and {members[1].name}"
                detail = f"{both}: the key of a sample ends at the first dot of its names"
                return f"several {kind} in a sample", detail
        if roles[0]:
            return None
        if unread := [name for name in names if is_unread_picture(name)]:
            return "unread ending", pathlib.PurePosixPath(unread[0]).suffix
        return "no image", f"the sample has {', '.join(names)}"


def _samples(file: BinaryIO) -> tuple[list[_Sample], str]:
    """The samples of an archive, and its damage; the last one before damage is lost."""
    groups: dict[str, list[list[_Member]]] = {}
    damage, key = "", None
    try:
        with tarfile.open(fileobj=file, mode="r:") as archive:
            for key, members in itertools.groupby(_members(archive), _sample_key):
                groups.setdefault(key, []).append([])
                groups[key][-1].extend(members)
            # Readers take damage in the middle for the end; the actual end is a block of zeros.
            file.seek(archive.offset)
            block = file.read(tarfile.BLOCKSIZE)
            if len(block) < tarfile.BLOCKSIZE or any(block):
                damage = f"no valid member at byte {archive.offset:,}"
    except (*TAR_ERRORS, ValueError) as error:
        damage = str(error)
        if key in groups:
            groups[key].pop()
    samples = [
        _Sample([member for group in found for member in group], len(found) == 1)
        for found in groups.values()
        if found
    ]
    return samples, damage


def _members(archive: tarfile.TarFile) -> Iterator[_Member]:
    for member in tar_members(archive):
        is_link = member.islnk() or member.issym()
        if is_note(member.name):
            continue
        if is_link or member.isfile():
            size = _LINK if is_link else member.size
            yield _Member(member.name, member.offset_data, size)


def _last(name: str) -> str:
    """The last component of a path, the same for all that look the same."""
    return composed(name).rpartition("/")[2]


def _sample_key(member: _Member) -> str:
    folder, _, name = member.name.rpartition("/")
    return composed(f"{folder}/{name.partition('.')[0]}")


def _reader(file: BinaryIO, member: _Member) -> Callable[[], bytes]:
    def read() -> bytes:
        try:
            return member.read(file)
        except OSError as error:
            raise BadImageError("truncated image", str(error)) from error

    return read
