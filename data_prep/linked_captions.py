"""The builder of datasets that are published as links: captions with the url of their image."""

import abc
import dataclasses
import functools
import pathlib
from collections.abc import Iterator, Mapping, Sequence
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


@dataclasses.dataclass(frozen=True)
class LinkedSplit:
    """One split of a dataset of links.

    Attributes:
      links: the list.
      images: folder that a downloader wrote, see `read_fetched`.
      wanted: bool [rows], the rows of this split; None for all.
    """

    links: LinkList
    images: pathlib.Path
    wanted: np.ndarray | None = None

    def records(self, most_captions: int | None) -> Iterator[Record | LeftOut]:
        """Joins rows with their images.

        Args:
          most_captions: captions of an example, the first ones; None for all.

        Yields:
          Examples with `image`, `image_id`, `captions` and `caption_ids` under the id of the image,
          and rows that cannot be used.
        """
        yield from self.links.load()
        joined = join_rows(
            read_fetched(self.images),
            len(self.links),
            where=lambda number: self.links[number].where,
            urls=self.links.urls.rows,
            names=self.links.rows_of_name,
            wanted=self.wanted,
        )
        for item in joined:
            if isinstance(item, LeftOut):
                yield item
                continue
            number, image = item
            row = self.links[number]
            captions = [
                (id_, text if isinstance(text, str) else read_caption(text, row.where))
                for id_, text in row.captions[:most_captions]
            ]
            bad = next((text for _, text in captions if isinstance(text, LeftOut)), None)
            example = schema.captioned_example(row.image_id, captions, image=image)
            yield bad or (row.image_id, example)


class LinkedCaptionsBuilder(schema.RandomAccessBuilder, skip_registration=True):
    """Builder of a dataset of links: the rows that have a sound image.

    Nothing is downloaded: images are those that a downloader left in folders. A subclass opens its
    lists by `_open_splits`.

    Attributes:
      MOST_CAPTIONS: builder config -> captions of an example, for configs that have not all.
    """

    VERSION = tfds.core.Version("1.0.0")
    MIN_KEPT = 0.5
    MOST_CAPTIONS: ClassVar[Mapping[str, int]] = {}

    def _open_splits(self, folder: pathlib.Path) -> Mapping[str, LinkedSplit]:
        """Returns the splits by name.

        Args:
          folder: the files that were fetched by hand.

        Raises:
          FileNotFoundError: a file is missing.
          UnexpectedFilesError: the files are not those of the dataset.
        """
        raise NotImplementedError

    def _features(self) -> tfds.features.FeaturesDict:
        return schema.captioned_image_features(schema.PIXELS)

    def _splits(self, folder: pathlib.Path) -> Mapping[str, Iterator[Record | LeftOut]]:
        splits = self._open_splits(folder)
        for each in splits.values():
            if not each.images.is_dir():
                raise FileNotFoundError(f"{each.images} does not exist")
        most_captions = self.MOST_CAPTIONS.get(self.builder_config.name)
        return {split: each.records(most_captions) for split, each in splits.items()}
