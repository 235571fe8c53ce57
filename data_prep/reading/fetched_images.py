"""Joins a published list of image urls with the downloaded images.

    urls = RowIndex(url for url, caption in rows).rows
    fetched = read_fetched(folder)
    for item in join_rows(fetched, len(rows), where=name_of_row, urls=urls, names=row_of_name):
        ...  # a LeftOut, or a row number with the image

Nothing is downloaded. Memory use is about 20 bytes per row of the list and one image.
"""

import bisect
import dataclasses
import os
import pathlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from absl import logging

from data_prep.building.record_counts import LeftOut
from data_prep.reading.fetched_files import Fetched, read_images, read_table
from data_prep.reading.tar_samples import TAR_ENDINGS, read_tar
from data_prep.same_text import content_hash
from xmodal.core.errors import UnexpectedFilesError
from xmodal.core.folders import walk

# Largest number of different downloader messages in a report.
_MAX_ERRORS = 1000


def read_fetched(folder: pathlib.Path) -> Iterator[Fetched | LeftOut]:
    """Reads the output of a downloader, image by image.

    - img2dataset `webdataset`: `00000.tar`, ... with the tables `00000.parquet`, ... beside them;
    - img2dataset `parquet`: `00000.parquet`, ... with the images in the column `jpg`;
    - img2dataset `files`: folders `00000/`, ... of images, each with a json file;
    - images in the folder itself or in subfolders, under names that a dataset defines.

    Shards and tables may be in subfolders, and shards may be compressed (`.tar.gz`). All of these
    are read, first shards and tables, then loose images.

    Yields:
      Images, links that could not be downloaded, and damaged shards.

    Raises:
      FileNotFoundError: the folder does not exist.
    """
    for part in fetched_parts(folder):
        yield from part.read()


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
        """Yields the items of this part, in the order of `read_fetched`."""
        if self.path.is_dir():
            parent, names = next(walk(self.path))
            return read_images(parent, names, self.folder, self.folder.name)
        where = f"{self.folder.name}/{self.path.relative_to(self.folder).as_posix()}"
        reader = read_table if self.path.suffix.lower() == ".parquet" else read_tar
        return reader(self.path, where)


def fetched_parts(folder: pathlib.Path) -> list[FetchedPart]:
    """Returns the parts of the output of a downloader, in the order of `read_fetched`.

    Raises:
      FileNotFoundError: the folder does not exist.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} does not exist")
    files = list(walk(folder))
    shards = sorted(
        parent / name
        for parent, names in files
        for name in names
        if name.lower().endswith((*TAR_ENDINGS, ".parquet"))
    )
    return [FetchedPart(folder, path) for path in (*shards, *(parent for parent, _ in files))]


class RowIndex:
    """Finds the rows of a list by a text of each row, such as its url.

    Only 64-bit hashes of the texts are kept: among five million rows, two different texts collide
    with a probability of one in a million.

    Args:
      texts: one per row, strings or UTF-8 bytes; surrounding spaces are ignored.
    """

    def __init__(self, texts: Iterable[str | bytes]) -> None:
        hashes = np.fromiter(map(text_hash, texts), np.uint64)
        self._rows = np.argsort(hashes, kind="stable").astype(np.int32)
        self._hashes = hashes[self._rows].data  # Indexing is three times as fast as for an array.

    def __len__(self) -> int:
        return len(self._rows)

    def rows(self, text: str | bytes) -> Sequence[int]:
        """Numbers of the rows with this text, counted from 0, in ascending order."""
        key = text_hash(text)
        start = stop = bisect.bisect_left(self._hashes, key)
        while stop < len(self._hashes) and self._hashes[stop] == key:
            stop += 1
        return self._rows[start:stop].tolist()


def text_hash(text: str | bytes) -> int:
    """A 64-bit hash of a text, the same on every machine."""
    data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    return content_hash(data.strip())


def row_of_name(name: str) -> Sequence[int]:
    """The row that a loose file is named after: `12.jpg` or `00012.png` is row 12."""
    stem = os.path.splitext(name)[0]
    # A number in a subfolder or an archive is a position in a shard, not a row.
    return [int(stem)] if stem.isdecimal() and stem.isascii() else []


def join_rows(
    fetched: Iterable[Fetched | LeftOut],
    count: int,
    *,
    where: Callable[[int], str],
    urls: Callable[[str], Sequence[int]],
    names: Callable[[str], Sequence[int]],
    wanted: np.ndarray | None = None,
) -> Iterator[tuple[int, Fetched] | LeftOut]:
    """Assigns images to the rows of a list.

    An image with a known url goes to all rows with this url, any other to the rows of its name.
    If a row has several images, the first one is used.

    Args:
      fetched: output of `read_fetched`.
      count: rows of the list.
      where: name of a row in reports.
      urls: rows of a url.
      names: rows of a file name; `row_of_name` where files are named by row number.
      wanted: bool [count], the rows to join; all by default. Images of others are skipped.

    Yields:
      Row numbers with their image, in the order of the images; damaged shards; at the end the
      wanted rows that have no image, with the downloader's message.

    Raises:
      UnexpectedFilesError: a number in a name belongs to no row, so all may be shifted.
    """
    join = RowJoin(count, wanted)
    for item in fetched:
        if isinstance(item, LeftOut):
            yield of_a_list(item)
            continue
        for row in join.take(rows_of(item, urls, names), item.error):
            yield row, item
    yield from join.missing(where)


def of_a_list(item: LeftOut) -> LeftOut:
    """Returns an entry of a folder that is joined with a list, whose rows are the records."""
    return dataclasses.replace(item, is_record=False)


def rows_of(
    item: Fetched,
    urls: Callable[[str], Sequence[int]],
    names: Callable[[str], Sequence[int]],
) -> list[int]:
    """Rows of a list that an image belongs to; see `join_rows`."""
    return list(urls(item.url) if item.url else names(item.name))


class RowJoin:
    """Decides which image a row of a list gets: the first of several.

    Args:
      count: rows of the list.
      wanted: bool [count], the rows to join; None for all.
    """

    def __init__(self, count: int, wanted: np.ndarray | None) -> None:
        self._open = np.ones(count, bool) if wanted is None else wanted.copy()
        self._errors, self._error_of = {"": 0}, np.zeros(count, np.int16)
        self._strangers, self._beyond, self._has_first = 0, sys.maxsize, False

    def take(self, rows: Sequence[int], error: str) -> list[int]:
        """Records the next image and returns the rows that get it.

        Args:
          rows: rows of the image.
          error: why there is no image; "" if there is one.
        """
        self._beyond = min([self._beyond, *(row for row in rows if row >= len(self._open))])
        rows = [row for row in rows if row < len(self._open)]
        self._strangers += not rows
        self._has_first |= 0 in rows
        if error:
            if len(self._errors) < _MAX_ERRORS:
                self._errors.setdefault(error, len(self._errors))
            self._error_of[rows] = self._errors.get(error, 0)
            return []
        taken = [row for row in rows if self._open[row]]
        self._open[taken] = False
        return taken

    def missing(self, where: Callable[[int], str]) -> Iterator[LeftOut]:
        """Yields the rows without an image; `where` names a row in reports.

        Raises:
          UnexpectedFilesError: a number in a name belongs to no row, and no image to row 0; or the
            numbers continue after the last row.
        """
        count = len(self._open)
        # With an image of row 0, a far number may be a stray file.
        if count and self._beyond < sys.maxsize and (not self._has_first or self._beyond == count):
            last = f"the last row of the list is {count - 1:,} ({where(count - 1)})"
            first = "" if self._has_first else f", and row 0 ({where(0)}) has no image"
            raise UnexpectedFilesError(
                f"an image is named by the number {self._beyond:,}, but {last}{first}: all images "
                "may be shifted against their captions; name them by the number of their row, "
                "counted from 0, and check that the list is complete"
            )
        if self._strangers:
            logging.warning(
                "%d fetched images match none of these %d rows; they belong to another split or "
                "list.",
                self._strangers,
                len(self._open),
            )
        messages = list(self._errors)
        for row in np.flatnonzero(self._open).tolist():
            yield LeftOut(where(row), "no image", messages[self._error_of[row]])
