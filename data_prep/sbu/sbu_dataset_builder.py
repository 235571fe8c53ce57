"""SBU Captioned Photos: a million Flickr images, each with a caption by its owner."""

import pathlib
from collections.abc import Iterable, Mapping
from typing import ClassVar

import numpy as np
import tensorflow_datasets as tfds

from data_prep import schema
from data_prep.building.random_access import configs
from data_prep.linked_captions import (
    LinkedCaptionsBuilder,
    LinkedRecords,
    LinkedRow,
    LinkList,
    linked_records,
    text_hash,
)
from data_prep.reading.text_lines import TextLines

_URLS = "SBU_captioned_photo_dataset_urls.txt"
_CAPTIONS = "SBU_captioned_photo_dataset_captions.txt"


class Builder(LinkedCaptionsBuilder):
    """TFDS builder of SBU Captioned Photos.

    Image and caption ids are the line numbers of the published files, counted from 0. No split was
    published; VETE used 50,000 random pairs for validation and 50,000 for the test. Here they are
    drawn by a hash of the url, which needs no seed and does not depend on the images that are still
    available.
    """

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = configs(images="Flickr images with one caption each.")
    HOMEPAGE = "https://www.cs.rice.edu/~vo9/sbucaptions/"
    EXPECTED: ClassVar[dict[str, int]] = {"rows": 1_000_000}
    # Rows in validation and in test; the rest is for training.
    HELD_OUT: ClassVar[int] = 50_000

    def _splits(self, folder: pathlib.Path) -> Mapping[str, LinkedRecords]:
        links = _Links(folder)
        for lines in (links.urls, links.captions):
            schema.check_counts({"rows": len(lines)}, self.EXPECTED, str(lines.path))
        return {
            split: linked_records(links, folder / "images", wanted=wanted, in_parts=self.in_parts)
            for split, wanted in split_rows(links.urls, self.HELD_OUT).items()
        }


def split_rows(urls: Iterable[bytes], held_out: int) -> dict[str, np.ndarray]:
    """Draws the splits: the smallest hashes of urls go to test, the next to validation.

    Args:
      urls: urls of all rows.
      held_out: number of rows in validation and in test.

    Returns:
      Split -> bool [rows].
    """
    order = np.argsort(np.fromiter(map(text_hash, urls), np.uint64), kind="stable")
    bounds = {"train": (2 * held_out, None), "validation": (held_out, 2 * held_out)}
    splits = {}
    for split, (start, stop) in {**bounds, "test": (0, held_out)}.items():
        splits[split] = np.zeros(len(order), bool)
        splits[split][order[start:stop]] = True
    return splits


class _Links(LinkList):
    """Urls and captions matched by position, in two text files."""

    NAMED_BY_FILE = True

    def __init__(self, folder: pathlib.Path) -> None:
        self.urls, self.captions = TextLines(folder / _URLS), TextLines(folder / _CAPTIONS)

    def __len__(self) -> int:
        return len(self.urls)

    def __getitem__(self, number: int) -> LinkedRow:
        url = self.urls[number]
        where, captions = f"{_CAPTIONS} line {number + 1}", [(number, self.captions[number])]
        return LinkedRow(where, number, url, captions, url.rpartition(b"/")[2])
