"""Builder for datasets that are published as links, and the join of their rows with images.

    links = ...  # a `LinkList`
    records = linked_records(links, folder, in_parts=False)

Memory use is about 20 bytes per row of the list and one image.
"""

import abc
import bisect
import dataclasses
import functools
import pathlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import tensorflow_datasets as tfds

from data_prep import schema
from data_prep.building.random_access import RandomAccessBuilder
from data_prep.building.record_check import PartedRecords
from data_prep.building.record_counts import LeftOut, Record
from data_prep.reading.fetched import Fetched, FetchedPart, fetched_parts
from data_prep.reading.text_lines import read_caption
from data_prep.same_text import content_hash
from xmodal.core.errors import UnexpectedFilesError

LinkedRecords = Iterable[Record | LeftOut] | PartedRecords


@dataclasses.dataclass(frozen=True)
class LinkedRow:
    """One row of a list.

    Attributes:
      where: file and line, for reports.
      image_id: id of the image.
      url: url of the image; empty if the row has none.
      captions: id and text of every caption.
      file_name: name that the image may have in a folder, besides the number of the row.
      features: further features of the example.
    """

    where: str
    image_id: int
    url: str | bytes
    captions: Sequence[tuple[int, str | bytes]]
    file_name: str | bytes = ""
    features: Mapping[str, Any] = dataclasses.field(default_factory=dict)


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

    def rows(self, text: str | bytes) -> list[int]:
        """Numbers of the rows with this text, counted from 0, in ascending order."""
        key = text_hash(text)
        start, stop = (find(self._hashes, key) for find in (bisect.bisect_left, bisect.bisect))
        return self._rows[start:stop].tolist()


def text_hash(text: str | bytes) -> int:
    """A 64-bit hash of a text, the same on every machine."""
    data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    return content_hash(data.strip())


class LinkList(abc.ABC):
    """A published list, whose rows are numbered from 0 and read on demand.

    Attributes:
      NAMED_BY_ROW: whether image files may be named by row number: `12.jpg` or `00012.png`.
      NAMED_BY_FILE: whether image files may have the `file_name` of their row, with or without its
        ending.
    """

    NAMED_BY_ROW: ClassVar[bool] = True
    NAMED_BY_FILE: ClassVar[bool] = False

    @abc.abstractmethod
    def __len__(self) -> int: ...

    @abc.abstractmethod
    def __getitem__(self, number: int) -> LinkedRow: ...

    def load(self) -> Iterator[LeftOut]:
        """Reads the list if it must be read first, and yields entries that are not rows."""
        return iter(())

    @functools.cached_property
    def _urls(self) -> RowIndex:
        return RowIndex(self[number].url for number in range(len(self)))

    @functools.cached_property
    def _files(self) -> RowIndex:
        return RowIndex(self[number].file_name for number in range(len(self)))

    def rows_of(self, image: Fetched) -> list[int]:
        """Rows of an image: those of its url if it is known, or else of its name."""
        if image.url:
            return self._urls.rows(image.url)
        path = pathlib.PurePosixPath(image.name)
        # A number in a subfolder or an archive is a position in a shard, not a row.
        is_number = path.stem.isdecimal() and path.stem.isascii() and len(path.parts) == 1
        rows = [int(path.stem)] if self.NAMED_BY_ROW and is_number else []
        if self.NAMED_BY_FILE and not any(row < len(self) for row in rows):
            rows = self._files.rows(path.name) or self._files.rows(path.stem) or rows
        return rows


class _Join:
    """Decides which image a row of a list gets: the first of several.

    Args:
      links: the list.
      wanted: bool [rows], the rows to join; None for all.
    """

    def __init__(self, links: LinkList, wanted: np.ndarray | None) -> None:
        self._links = links
        self._open = np.ones(len(links), bool) if wanted is None else wanted.copy()
        self._errors, self._error_of = {"": 0}, np.zeros(len(links), np.int32)
        self._beyond, self._has_first = sys.maxsize, False

    def take(self, item: Fetched | LeftOut) -> list[LinkedRow]:
        """Returns the rows that get the next image of a folder."""
        if isinstance(item, LeftOut):
            return []
        found = self._links.rows_of(item)
        rows = [row for row in found if row < len(self._open)]
        self._beyond = min([self._beyond, *(row for row in found if row not in rows)])
        self._has_first |= 0 in rows
        if item.error:
            self._error_of[rows] = self._errors.setdefault(item.error, len(self._errors))
            return []
        rows = [row for row in rows if self._open[row]]
        self._open[rows] = False
        return [self._links[row] for row in rows]

    def missing(self) -> Iterator[LeftOut]:
        """Yields the rows without an image, with the downloader's message.

        Raises:
          UnexpectedFilesError: a number in a name belongs to no row, and no image to row 0; or the
            numbers continue after the last row.
        """
        count = len(self._open)
        # With an image of row 0, a far number may be a stray file.
        if count and self._beyond < sys.maxsize and (not self._has_first or self._beyond == count):
            last, first = self._links[count - 1].where, self._links[0].where
            raise UnexpectedFilesError(
                f"an image is named by the number {self._beyond:,}, but the first row of the list, "
                f"0, is {first}, and the last one, {count - 1:,}, is {last}: all images may be "
                "shifted against their captions; name them by the number of their row, counted "
                "from 0, and check that the list is complete"
            )
        messages = list(self._errors)
        for row in np.flatnonzero(self._open).tolist():
            yield LeftOut(self._links[row].where, "no image", messages[self._error_of[row]])


def linked_records(
    links: LinkList,
    images: pathlib.Path,
    *,
    wanted: np.ndarray | None = None,
    most_captions: int | None = None,
    in_parts: bool = False,
) -> LinkedRecords:
    """Joins the rows of a split with their images, which a downloader saved in a folder.

    An image with a known url goes to all rows with this url, any other to the rows of its name.

    Args:
      links: the list.
      images: the folder; see `fetched_parts`.
      wanted: bool [rows], the rows of this split; None for all.
      most_captions: number of captions per example, the first ones; None for all.
      in_parts: whether Beam workers read the images.

    Returns:
      Examples with `image`, `image_id`, `captions` and `caption_ids`, keyed by image id, in the
      order of the images, and rows that cannot be used.

    Raises:
      FileNotFoundError: there is no such folder.
    """
    if not in_parts:
        return _records(links, images, wanted, most_captions)
    # A first pass finds the rows of the images without reading them.
    first, join = list(links.load()), _Join(links, wanted)
    parts = [(part, [join.take(item) for item in part.read()]) for part in fetched_parts(images)]
    return PartedRecords(parts, functools.partial(_read_part, most_captions), first, join.missing())


def _records(
    links: LinkList, images: pathlib.Path, wanted: np.ndarray | None, most_captions: int | None
) -> Iterator[Record | LeftOut]:
    """All records, in one pass over the images."""
    yield from links.load()
    join = _Join(links, wanted)
    for part in fetched_parts(images):
        for item in part.read():
            yield from _of_item(item, join.take(item), most_captions)
    yield from join.missing()


def _read_part(
    most_captions: int | None, part: tuple[FetchedPart, Sequence[Sequence[LinkedRow]]]
) -> Iterator[Record | LeftOut]:
    """The records of a part, given the rows that get its images."""
    for item, rows in zip(part[0].read(), part[1], strict=True):
        yield from _of_item(item, rows, most_captions)


def _of_item(
    item: Fetched | LeftOut, rows: Iterable[LinkedRow], most_captions: int | None
) -> Iterator[Record | LeftOut]:
    """The records of an image; damage of a folder is listed, since the rows are the records."""
    if isinstance(item, LeftOut):
        yield dataclasses.replace(item, is_record=False)
    for row in rows:
        captions = [
            (id_, text if isinstance(text, str) else read_caption(text, row.where))
            for id_, text in row.captions[:most_captions]
        ]
        good = [(id_, text) for id_, text in captions if isinstance(text, str)]
        bad = next((text for _, text in captions if isinstance(text, LeftOut)), None)
        example = schema.captioned_example(row.image_id, good, image=item, **row.features)
        yield bad or (row.image_id, example)


class LinkedCaptionsBuilder(RandomAccessBuilder):
    """Builder for a dataset of links, many of them dead; keeps the rows with a valid image."""

    VERSION = tfds.core.Version("1.0.0")
    MIN_KEPT = 0.5
    READ_IN_PARTS = True

    def _features(self) -> tfds.features.FeaturesDict:
        return schema.captioned_image_features(schema.PIXELS)
