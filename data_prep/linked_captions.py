"""The builder of datasets that are published as links: captions with the url of their image."""

import abc
import dataclasses
import functools
import pathlib
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np
import tensorflow_datasets as tfds

from data_prep import schema
from data_prep.building.records import LeftOut, Record
from data_prep.reading.fetched_images import RowIndex, join_rows, read_fetched, row_of_name
from data_prep.reading.text_lines import read_caption


@dataclasses.dataclass(frozen=True)
class LinkedRow:
    """One row of a list.

    Attributes:
      where: file and line, for reports.
      image_id: id of the image.
      url: of the image; empty if the row does not say.
      captions: id and text of every caption.
      file_name: under which the image may lie in a folder, beside the number of the row.
    """

    where: str
    image_id: int
    url: str | bytes
    captions: Sequence[tuple[int, str | bytes]]
    file_name: str | bytes = ""


class LinkList(abc.ABC):
    """A published list, whose rows are numbered from 0 and read when they are asked for.

    Attributes:
      NAMED_BY_ROW: whether files of images may be named after the number of their row.
      NAMED_BY_FILE: whether they may be named as the rows say.
    """

    NAMED_BY_ROW: ClassVar[bool] = True
    NAMED_BY_FILE: ClassVar[bool] = False

    @abc.abstractmethod
    def __len__(self) -> int: ...

    @abc.abstractmethod
    def __getitem__(self, number: int) -> LinkedRow: ...

    def load(self) -> Iterator[LeftOut]:
        """Reads the list where that has to come first, and yields entries that are no rows."""
        return iter(())

    @functools.cached_property
    def urls(self) -> RowIndex:
        """Finds rows by url."""
        return RowIndex(self[number].url for number in range(len(self)))

    @functools.cached_property
    def _files(self) -> RowIndex:
        return RowIndex(self[number].file_name for number in range(len(self)))

    def rows_of_name(self, name: str) -> Sequence[int]:
        """Rows that a loose file belongs to by its name."""
        rows = row_of_name(name) if self.NAMED_BY_ROW else ()
        if not rows and self.NAMED_BY_FILE:
            rows = self._files.rows(pathlib.PurePosixPath(name).name)
        return rows


def linked_records(
    links: LinkList,
    images: pathlib.Path,
    *,
    wanted: np.ndarray | None = None,
    most_captions: int | None = None,
) -> Iterator[Record | LeftOut]:
    """Joins the rows of a split with their images, those that a downloader left in a folder.

    Args:
      links: the list.
      images: the folder, see `read_fetched`.
      wanted: bool [rows], the rows of this split; None for all.
      most_captions: captions of an example, the first ones; None for all.

    Returns:
      Examples with `image`, `image_id`, `captions` and `caption_ids` under the id of the image,
      and rows that cannot be used.

    Raises:
      FileNotFoundError: there is no such folder.
    """
    if not images.is_dir():
        raise FileNotFoundError(f"{images} does not exist")
    return _records(links, images, wanted, most_captions)


def _records(
    links: LinkList, images: pathlib.Path, wanted: np.ndarray | None, most_captions: int | None
) -> Iterator[Record | LeftOut]:
    yield from links.load()
    joined = join_rows(
        read_fetched(images),
        len(links),
        where=lambda number: links[number].where,
        urls=links.urls.rows,
        names=links.rows_of_name,
        wanted=wanted,
    )
    for item in joined:
        if isinstance(item, LeftOut):
            yield item
            continue
        number, image = item
        row = links[number]
        captions = [
            (id_, text if isinstance(text, str) else read_caption(text, row.where))
            for id_, text in row.captions[:most_captions]
        ]
        good = [(id_, text) for id_, text in captions if isinstance(text, str)]
        bad = next((text for _, text in captions if isinstance(text, LeftOut)), None)
        yield bad or (row.image_id, schema.captioned_example(row.image_id, good, image=image))


class LinkedCaptionsBuilder(schema.RandomAccessBuilder, skip_registration=True):  # type: ignore[call-arg]
    """Builder of a dataset of links, of which many are dead: the rows that have a sound image."""

    VERSION = tfds.core.Version("1.0.0")
    MIN_KEPT = 0.5

    def _features(self) -> tfds.features.FeaturesDict:
        return schema.captioned_image_features(schema.PIXELS)
