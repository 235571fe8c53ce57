"""Builder for datasets that are published as links: captions with the url of their image."""

import abc
import dataclasses
import functools
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import tensorflow_datasets as tfds

from data_prep import schema
from data_prep.building.random_access import RandomAccessBuilder
from data_prep.building.record_counts import LeftOut, Record
from data_prep.building.record_parts import PartedRecords
from data_prep.reading.fetched_files import Fetched
from data_prep.reading.fetched_images import (
    FetchedPart,
    RowIndex,
    RowJoin,
    fetched_parts,
    join_rows,
    of_a_list,
    read_fetched,
    row_of_name,
    rows_of,
)
from data_prep.reading.text_lines import read_caption

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
    """

    where: str
    image_id: int
    url: str | bytes
    captions: Sequence[tuple[int, str | bytes]]
    file_name: str | bytes = ""


class LinkList(abc.ABC):
    """A published list, whose rows are numbered from 0 and read on demand.

    Attributes:
      NAMED_BY_ROW: whether image files may be named by row number.
      NAMED_BY_FILE: whether image files may have the `file_name` of their row.
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
    def urls(self) -> RowIndex:
        """Index that finds rows by url."""
        return RowIndex(self[number].url for number in range(len(self)))

    @functools.cached_property
    def _files(self) -> RowIndex:
        return RowIndex(self[number].file_name for number in range(len(self)))

    def rows_of_name(self, name: str) -> Sequence[int]:
        """Rows that a loose file belongs to, according to its name."""
        rows = row_of_name(name) if self.NAMED_BY_ROW else ()
        if self.NAMED_BY_FILE and not any(row < len(self) for row in rows):
            rows = self._files.rows(pathlib.PurePosixPath(name).name) or rows
        return rows

    def where(self, number: int) -> str:
        """Name of a row in reports."""
        return self[number].where


def linked_records(
    links: LinkList,
    images: pathlib.Path,
    *,
    wanted: np.ndarray | None = None,
    most_captions: int | None = None,
    in_parts: bool,
) -> LinkedRecords:
    """Joins the rows of a split with their images, which a downloader saved in a folder.

    Args:
      links: the list.
      images: the folder; see `read_fetched`.
      wanted: bool [rows], the rows of this split; None for all.
      most_captions: number of captions per example, the first ones; None for all.
      in_parts: whether Beam workers read the images.

    Returns:
      Examples with `image`, `image_id`, `captions` and `caption_ids`, keyed by image id, and rows
      that cannot be used.

    Raises:
      FileNotFoundError: there is no such folder.
    """
    if not images.is_dir():
        raise FileNotFoundError(f"{images} does not exist")
    if in_parts:
        return _parted_records(links, images, wanted, most_captions)
    return _records(links, images, wanted, most_captions)


def _records(
    links: LinkList, images: pathlib.Path, wanted: np.ndarray | None, most_captions: int | None
) -> Iterator[Record | LeftOut]:
    """All records, in one pass over the images."""
    yield from links.load()
    joined = join_rows(
        read_fetched(images),
        len(links),
        where=links.where,
        urls=links.urls.rows,
        names=links.rows_of_name,
        wanted=wanted,
    )
    for item in joined:
        if isinstance(item, LeftOut):
            yield item
        else:
            number, image = item
            yield _record(links[number], image, most_captions)


def _parted_records(
    links: LinkList, images: pathlib.Path, wanted: np.ndarray | None, most_captions: int | None
) -> PartedRecords:
    """The same records in parts; a first pass finds the rows of the images without reading them."""
    first = list(links.load())
    join = RowJoin(len(links), wanted)
    parts = [
        (part, [list(map(links.__getitem__, _take(join, links, item))) for item in part.read()])
        for part in fetched_parts(images)
    ]
    read = functools.partial(_read_part, most_captions)
    return PartedRecords(parts, read, first, join.missing(links.where))


def _take(join: RowJoin, links: LinkList, item: Fetched | LeftOut) -> list[int]:
    if isinstance(item, LeftOut):
        return []
    return join.take(rows_of(item, links.urls.rows, links.rows_of_name), item.error)


def _read_part(
    most_captions: int | None, part: tuple[FetchedPart, Sequence[Sequence[LinkedRow]]]
) -> Iterator[Record | LeftOut]:
    """The records of a part, given the rows that get its images."""
    for item, rows in zip(part[0].read(), part[1], strict=True):
        if isinstance(item, LeftOut):
            yield of_a_list(item)
        for row in rows:
            yield _record(row, item, most_captions)


def _record(row: LinkedRow, image: Any, most_captions: int | None) -> Record | LeftOut:
    captions = [
        (id_, text if isinstance(text, str) else read_caption(text, row.where))
        for id_, text in row.captions[:most_captions]
    ]
    good = [(id_, text) for id_, text in captions if isinstance(text, str)]
    bad = next((text for _, text in captions if isinstance(text, LeftOut)), None)
    return bad or (row.image_id, schema.captioned_example(row.image_id, good, image=image))


class LinkedCaptionsBuilder(RandomAccessBuilder):
    """Builder for a dataset of links, many of them dead; keeps the rows with a valid image."""

    VERSION = tfds.core.Version("1.0.0")
    MIN_KEPT = 0.5
    READ_IN_PARTS = True

    def _features(self) -> tfds.features.FeaturesDict:
        return schema.captioned_image_features(schema.PIXELS)
