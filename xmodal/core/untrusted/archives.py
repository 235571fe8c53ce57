"""Archives from elsewhere."""

import os
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from typing import BinaryIO

ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)
"""Errors of damaged zip archives, and of compressions and encryptions that are not supported."""
TAR_ERRORS = (tarfile.TarError, zlib.error, EOFError, OSError)


def read_part(file: BinaryIO, start: int, size: int) -> bytes | None:
    """Returns bytes within a file; None if it ends before."""
    if not 0 <= size <= file.seek(0, os.SEEK_END) - start:
        return None
    file.seek(start)
    return file.read(size)


def tar_members(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Yields the members of an archive, whose headers do not stay in memory."""
    while (member := archive.next()) is not None:
        archive.members.clear()  # type: ignore[attr-defined]
        yield member
