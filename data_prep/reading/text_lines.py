"""Lines of a text file by number, for lists that do not fit in memory."""

import array
import codecs
import mmap
import pathlib
from collections.abc import Iterator

from data_prep.building.record_counts import LeftOut

SAVE_AS = "save the file as UTF-8"


class TextLines:
    """Lines of a file, read from disk on demand, with 8 bytes of memory per line.

    Only line feeds end a line. A carriage return before one is not part of the line, nor is a
    byte-order mark at the start of the file.

    Args:
      path: an uncompressed text file, which stays open.

    Raises:
      FileNotFoundError: there is no such file.
    """

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        with path.open("rb") as file:
            size = file.seek(0, 2)
            # An empty file cannot be mapped.
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
        self._first = len(codecs.BOM_UTF8) if self._bytes[:3] == codecs.BOM_UTF8 else 0
        self._ends = array.array("q")
        end = self._bytes.find(b"\n")
        while end >= 0:
            self._ends.append(end)
            end = self._bytes.find(b"\n", end + 1)
        if size > self._first and self._bytes[size - 1 : size] != b"\n":
            self._ends.append(size)  # The last line may lack a line feed.

    def __len__(self) -> int:
        return len(self._ends)

    def start_of(self, number: int, size: int) -> bytes:
        """The first bytes of a line; the rest is not read."""
        start = self._start(number)
        return self._bytes[start : min(start + size, self._ends[number])]

    def __getitem__(self, number: int) -> bytes:
        return self._bytes[self._start(number) : self._ends[number]].removesuffix(b"\r")

    def _start(self, number: int) -> int:
        return self._ends[number - 1] + 1 if number else self._first

    def __iter__(self) -> Iterator[bytes]:
        return map(self.__getitem__, range(len(self)))


def read_caption(line: bytes, where: str) -> str | LeftOut:
    """Returns a caption as text, or why it is not valid; `where` names its line in reports."""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        detail = f"{error.reason} at byte {error.start} of the caption; {SAVE_AS}"
        return LeftOut(where, "not UTF-8", detail)
    if "\0" in text:
        return LeftOut(where, "not text", f"a NUL at character {text.index(chr(0))} of the caption")
    return text if text.strip() else LeftOut(where, "empty caption")
