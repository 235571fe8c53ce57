"""SBU Captioned Photos: a million Flickr images, each with a caption by its owner."""

import pathlib
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

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
from data_prep.reading.text_files import read_json
from data_prep.reading.text_lines import TextLines
from xmodal.core.errors import UnexpectedFilesError

_URLS = "SBU_captioned_photo_dataset_urls.txt"
_CAPTIONS = "SBU_captioned_photo_dataset_captions.txt"
# The later release of the same data: lists `image_urls`, `user_ids` and `captions`.
_JSON = "sbu-captions-all.json"


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
        schema.check_counts({"rows": len(links)}, self.EXPECTED, str(links.path))
        return {
            split: linked_records(links, folder / "images", wanted=wanted, in_parts=self.in_parts)
            for split, wanted in split_rows(links.lines, self.HELD_OUT).items()
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
    places = {"test": order[:held_out], "validation": order[held_out : 2 * held_out]}
    splits = {"train": np.ones(len(order), bool)}
    for split in ("validation", "test"):
        splits[split] = np.zeros(len(order), bool)
        splits[split][places[split]] = True
        splits["train"] &= ~splits[split]
    return splits


class _Links(LinkList):
    """Urls and captions matched by position, in two text files or one JSON file."""

    NAMED_BY_FILE = True

    def __init__(self, folder: pathlib.Path) -> None:
        self.path = folder / _URLS
        if not self.path.exists() and (folder / _JSON).exists():
            self.path = folder / _JSON
            content = read_json(self.path)
            self.lines: TextLines | list[bytes] = _texts(content, "image_urls", self.path)
            self._captions: TextLines | list[bytes] = _texts(content, "captions", self.path)
        else:
            self.lines, self._captions = TextLines(self.path), TextLines(folder / _CAPTIONS)
        if len(self.lines) != len(self._captions):
            raise UnexpectedFilesError(
                f"{self.path} has {len(self.lines):,} urls, but there are {len(self._captions):,} "
                "captions; download both again"
            )

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, number: int) -> LinkedRow:
        url = self.lines[number]
        where = (
            f"{_JSON} entry {number}"
            if self.path.name == _JSON
            else f"{_CAPTIONS} line {number + 1}"
        )
        captions = [(number, self._captions[number])]
        return LinkedRow(where, number, url, captions, url.rpartition(b"/")[2])


def _texts(content: Any, name: str, path: pathlib.Path) -> list[bytes]:
    texts = content.get(name) if isinstance(content, dict) else None
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise UnexpectedFilesError(f"{path} has no list of strings {name}")
    return [text.encode("utf-8", "surrogatepass") for text in texts]
