"""Archives from elsewhere: bounds of their expanded size, and checks of their members."""

import gzip
import io
import os
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO, BinaryIO

ZIP_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    MemoryError,
    NotImplementedError,  # Flags, such as encryption, and versions.
    RuntimeError,
    OverflowError,
)
# MemoryError, RecursionError: a size and a chain of long names in headers.
TAR_ERRORS = (
    tarfile.TarError, OSError, EOFError, zlib.error, MemoryError, OverflowError, RecursionError,
)  # fmt: skip


def most_expanded(packed: int) -> int:
    """Returns the number of bytes that a file of `packed` bytes may expand to.

    Text shrinks by 20, padded features and label tables by up to 100; only small files by more.
    """
    return 2**28 + 100 * packed


def size_of(source: str | os.PathLike | IO[bytes]) -> int:
    """Returns the bytes of a file; an open one is left at its start."""
    if isinstance(source, (str, os.PathLike)):
        return os.path.getsize(source)
    size = source.seek(0, os.SEEK_END)
    source.seek(0)
    return size


def open_zip(source: str | os.PathLike | IO[bytes]) -> zipfile.ZipFile:
    """Opens a zip archive; none of its members is read further than the size in its directory.

    Raises:
      Exception: one of `ZIP_ERRORS`, OSError or ValueError; it is damaged, or expands too far.
    """
    most = most_expanded(size_of(source))
    archive = zipfile.ZipFile(source)
    expanded = sum(member.file_size for member in archive.infolist())
    if expanded > most:
        archive.close()
        raise zipfile.BadZipFile(f"it expands to {expanded:,} bytes, more than {most:,}")
    return archive


def open_gzip(file: BinaryIO) -> BinaryIO:
    """Opens a gzipped file.

    Reading raises EOFError, zlib.error, or gzip.BadGzipFile, also where it expands too far.
    """
    return io.BufferedReader(_BoundedGzip(file))  # type: ignore[type-var]


class _BoundedGzip(io.RawIOBase):
    def __init__(self, file: BinaryIO) -> None:
        self._most = most_expanded(size_of(file))
        self._file = gzip.GzipFile(fileobj=file)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        count = self._file.readinto(buffer)
        if self._file.tell() > self._most:
            raise gzip.BadGzipFile(f"it expands to more than {self._most:,} bytes")
        return count


def read_part(file: BinaryIO, start: int, size: int) -> bytes | None:
    """Returns bytes within a file; None if it ends before."""
    if not 0 <= size <= file.seek(0, os.SEEK_END) - start:
        return None
    file.seek(start)
    return file.read(size)


def tar_members(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Yields the members of an archive, whose headers do not stay in memory.

    Raises:
      Exception: one of `TAR_ERRORS`; a header is damaged, or leads back to an earlier one.
    """
    place = -1
    while (member := archive.next()) is not None:
        archive.members.clear()  # type: ignore[attr-defined]
        if member.size < 0 or archive.offset <= place:
            raise tarfile.ReadError(f"{member.name} has a negative size")
        place = archive.offset
        yield member
