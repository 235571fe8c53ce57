"""LMDB from elsewhere: the keys and values of its main table, within its file.

LMDB's own library trusts every offset in a file, and crashes. The format is that of `mdb.c` of LMDB
0.9 on 64-bit machines, https://git.openldap.org/openldap/openldap: pages of a B+ tree, of which the
first two describe the tree before and after the last write.
"""

import mmap
import os
import struct
from collections.abc import Iterator

_PAGE = struct.Struct("<8x 2x H H 2x")  # Flags; end of the places of its nodes.
# Magic number, version; page size; depth and root of the main table; number of the write.
_META = struct.Struct("<I I 16x I 44x 6x H 32x Q 8x Q")
_NODE = struct.Struct("<H H H H")  # Two halves of a size or page; flags; size of the key.
_MAGIC, _VERSION, _NO_PAGE = 0xBEEFC0DE, 1, 2**64 - 1
_BRANCH, _LEAF, _OVERFLOW = 1, 2, 4
_ELSEWHERE, _TABLE = 1, 2 | 4  # The value is on pages of its own; it is a table.

Place = tuple[int, int]
"""Start and size of a value."""


class LmdbFile:
    """A file `data.mdb`, which stays open.

    Args:
      path: its path.

    Raises:
      OSError: there is no such file.
      ValueError: it is damaged, or not one.
    """

    def __init__(self, path: str | os.PathLike) -> None:
        with open(path, "rb") as file:
            if not os.fstat(file.fileno()).st_size:  # It cannot be mapped.
                raise ValueError("it is empty")
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._page_size = self._read_meta(0)[0]
        metas = (self._read_meta(number * self._page_size) for number in range(2))
        _, self._depth, self._root, _ = max(metas, key=lambda meta: meta[-1])

    def places(self) -> Iterator[tuple[bytes, Place]]:
        """Yields every key, in order, and the place of its value.

        Raises:
          ValueError: the file is damaged, or has tables inside a table.
        """
        if self._root == _NO_PAGE:
            return
        unread = [(self._root, self._depth)]
        # A page that is in several branches would be read again and again.
        left = len(self._bytes) // self._page_size
        while unread:
            page, depth = unread.pop()
            left -= 1
            if left < 0:
                raise ValueError("its pages form a loop")
            if depth > 1:
                below = (
                    low | high << 16 | flags << 32
                    for low, high, flags, *_ in self._nodes(page, _BRANCH)
                )
                unread += [(child, depth - 1) for child in reversed(list(below))]
                continue
            for low, high, flags, size, start in self._nodes(page, _LEAF):
                yield self._part(start, size), self._place_of(low | high << 16, flags, start + size)

    def read(self, place: Place) -> bytes:
        """Returns a value."""
        return self._part(*place)

    def _read_meta(self, start: int) -> tuple[int, int, int, int]:
        """Returns page size, depth, root and number of the write."""
        content = self._part(start + _PAGE.size, _META.size)
        magic, version, page_size, depth, root, write = _META.unpack(content)
        if (magic, version) != (_MAGIC, _VERSION):
            raise ValueError("it does not start like one of LMDB 0.9")
        if page_size not in (2**power for power in range(8, 17)):
            raise ValueError(f"its pages have {page_size} bytes")
        return page_size, depth, root, write

    def _nodes(self, page: int, kind: int) -> Iterator[tuple[int, int, int, int, int]]:
        """Yields the head of every node of a page, and where its key starts."""
        start = page * self._page_size
        content = self._part(start, self._page_size)
        flags, end = _PAGE.unpack_from(content)
        if not flags & kind or not _PAGE.size <= end <= self._page_size:
            raise ValueError(f"page {page} is of another kind")
        for (place,) in struct.iter_unpack("<H", content[_PAGE.size : end & ~1]):
            if place + _NODE.size > self._page_size:
                raise ValueError(f"page {page} has a node outside")
            yield *_NODE.unpack_from(content, place), start + place + _NODE.size

    def _place_of(self, size: int, flags: int, start: int) -> Place:
        if flags & _TABLE:
            raise ValueError("it has tables inside its table")
        if not flags & _ELSEWHERE:
            return start, size
        page = int.from_bytes(self._part(start, 8), "little") * self._page_size
        if not _PAGE.unpack(self._part(page, _PAGE.size))[0] & _OVERFLOW:
            raise ValueError("a value is on a page of another kind")
        return page + _PAGE.size, size

    def _part(self, start: int, size: int) -> bytes:
        content = self._bytes[start : start + size]
        if len(content) != size:
            raise ValueError("it is truncated")
        return content
