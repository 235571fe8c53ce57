"""Conceptual Captions: 3.3 million web images, each with its cleaned alt text as the caption."""

import pathlib
from collections.abc import Mapping
from typing import ClassVar

import tensorflow_datasets as tfds

from data_prep import schema
from data_prep.linked_captions import LinkedCaptionsBuilder, LinkedRow, LinkedSplit, LinkList
from data_prep.published import Figure, Unknown
from data_prep.reading.text_lines import TextLines

# Split -> published file, folder of its images, and id of its first row: no two splits share one.
_FILES = {
    "train": ("Train_GCC-training.tsv", "training", 0),
    "validation": ("Validation_GCC-1.1.0-Validation.tsv", "validation", 10_000_000),
}
# The line that img2dataset needs on top, and tells its users to put there.
_HEADER = b"caption\turl"
_COPIES = Unknown("a server that lost a picture often sends the same other one in its place")


class Builder(LinkedCaptionsBuilder):
    """TFDS builder of Conceptual Captions.

    Image and caption ids are the row numbers of the published files, counted from 0. The files list
    urls and many of those are dead by now: the dataset holds the rows that have a sound image.
    """

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS: ClassVar[list[tfds.core.BuilderConfig]] = [
        tfds.core.BuilderConfig(name="images", description="Web images with one caption each."),
    ]
    MANUAL_DOWNLOAD_INSTRUCTIONS = """
    Put into one folder
      - Train_GCC-training.tsv and Validation_GCC-1.1.0-Validation.tsv from
        https://ai.google.com/research/ConceptualCaptions/download
      - training/ and validation/ with the images fetched from the urls in these files: the output
        of img2dataset (any of webdataset, parquet and files), or images named by the row number
        counted from 0: training/0.jpg, training/1.png, ...
    """
    HOMEPAGE = "https://ai.google.com/research/ConceptualCaptions"
    EXPECTED: ClassVar[dict[str, int]] = {"train": 3318333, "validation": 15840}

    @classmethod
    def published_figures(cls, config: str) -> dict[str, Figure]:
        """See `RandomAccessBuilder`: Sharma et al. 2018."""
        del config
        figures: dict[str, Figure] = {
            f"{split}/records with those left out": rows for split, rows in cls.EXPECTED.items()
        }
        return figures | {
            "*/captions of an image": "1",
            "validation/image also in train": _COPIES,
            "validation/image and caption also in train": _COPIES,
        }

    def _open_splits(self, folder: pathlib.Path) -> Mapping[str, LinkedSplit]:
        splits = {
            split: LinkedSplit(_Table(folder / name, first_id), folder / images)
            for split, (name, images, first_id) in _FILES.items()
        }
        found = {split: len(each.links) for split, each in splits.items()}
        schema.check_counts(found, self.EXPECTED, str(folder))
        return splits


class _Table(LinkList):
    """A published file: caption, tab, url."""

    def __init__(self, path: pathlib.Path, first_id: int) -> None:
        self._lines, self._first_id = TextLines(path), first_id
        self._first = int(len(self._lines) > 0 and self._lines[0].strip() == _HEADER)

    def __len__(self) -> int:
        return len(self._lines) - self._first

    def __getitem__(self, number: int) -> LinkedRow:
        line = number + self._first
        caption, _, url = self._lines[line].partition(b"\t")
        where, row_id = f"{self._lines.path.name} line {line + 1}", self._first_id + number
        return LinkedRow(where, row_id, url, [(row_id, caption)])
