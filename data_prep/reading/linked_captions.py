"""Datasets that are published as links: one caption per line, with the url of its image."""

import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np

from data_prep.building.records import LeftOut, Record
from data_prep.reading.fetched_images import RowIndex, join_rows, read_fetched, row_of_name
from data_prep.reading.text_lines import read_caption


class LinkList(Protocol):
    """A published list, whose rows are numbered from 0."""

    def __len__(self) -> int: ...

    def url(self, row: int) -> bytes:
        """Where the image of a row was; empty if the row does not say."""

    def caption(self, row: int) -> bytes:
        """The text of a row."""

    def where(self, row: int) -> str:
        """What reports call a row."""


def linked_records(
    links: LinkList,
    folder: pathlib.Path,
    *,
    first_id: int = 0,
    index: RowIndex | None = None,
    names: Callable[[str], Sequence[int]] = row_of_name,
    wanted: np.ndarray | None = None,
) -> Iterator[Record | LeftOut]:
    """The rows of a list whose image was fetched, as examples with one caption.

    Args:
      links: the list.
      folder: what a downloader left; see `read_fetched`.
      first_id: image and caption id of row 0; the others follow.
      index: finds the rows of a url, if it is there already.
      names: finds the rows of a loose file by its name.
      wanted: bool [rows], the rows of this split; all by default.

    Yields:
      Examples with `image`, `image_id`, `captions` and `caption_ids` under the id of the image, and
      the rows that cannot be used.
    """
    if index is None:
        index = RowIndex(links.url(row) for row in range(len(links)))
    joined = join_rows(
        read_fetched(folder),
        len(links),
        where=links.where,
        urls=index.rows,
        names=names,
        wanted=wanted,
    )
    for item in joined:
        if isinstance(item, LeftOut):
            yield item
            continue
        row, fetched = item
        caption = read_caption(links.caption(row), links.where(row))
        if isinstance(caption, LeftOut):
            yield caption
            continue
        image_id = first_id + row
        yield (
            image_id,
            {
                "image": fetched,
                "image_id": image_id,
                "captions": [caption],
                "caption_ids": [image_id],
            },
        )
