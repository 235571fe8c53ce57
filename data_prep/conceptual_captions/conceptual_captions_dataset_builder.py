"""Conceptual Captions: 3.3 million web images, each with its cleaned alt text as the caption."""

import pathlib
from collections.abc import Iterable, Mapping
from typing import ClassVar

import tensorflow_datasets as tfds

from data_prep import schema
from data_prep.building.records import LeftOut, Record
from data_prep.published import Figure, Unknown
from data_prep.reading.linked_captions import linked_records
from data_prep.reading.text_lines import TextLines

# Validation ids start here, so that they differ from the row numbers of the training file.
_VALIDATION_OFFSET = 10_000_000
# The line that img2dataset needs on top, and tells its users to put there.
_HEADER = b"caption\turl"
_COPIES = Unknown("a server that lost a picture often sends the same other one in its place")


class Builder(schema.RandomAccessBuilder):
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
      - training/ and validation/ with what could be fetched of the urls in these files: the output
        of img2dataset (any of webdataset, parquet and files), or images named by the row number
        counted from 0: training/0.jpg, training/1.png, ...
    """
    EXPECTED: ClassVar[dict[str, int]] = {"train": 3318333, "validation": 15840}
    MIN_KEPT = 0.5

    def _info(self) -> tfds.core.DatasetInfo:
        return self.dataset_info_from_configs(
            features=schema.captioned_image_features(tfds.features.Image(shape=(None, None, 3))),
            homepage="https://ai.google.com/research/ConceptualCaptions",
        )

    @classmethod
    def published_figures(cls, config: str) -> dict[str, Figure]:
        """See `RandomAccessBuilder`."""
        del config
        figures: dict[str, Figure] = {
            f"{split}/records with those left out": rows for split, rows in cls.EXPECTED.items()
        }
        return figures | {
            "*/captions of an image": "1",
            "validation/image also in train": _COPIES,
            "validation/image and caption also in train": _COPIES,
        }

    def _splits(self, folder: pathlib.Path) -> Mapping[str, Iterable[Record | LeftOut]]:
        links = {
            "train": _Links(folder / "Train_GCC-training.tsv"),
            "validation": _Links(folder / "Validation_GCC-1.1.0-Validation.tsv"),
        }
        schema.check_counts(
            {split: len(rows) for split, rows in links.items()}, self.EXPECTED, str(folder)
        )
        images = {"train": folder / "training", "validation": folder / "validation"}
        for path in images.values():
            if not path.is_dir():
                raise FileNotFoundError(f"{path} does not exist")
        first_ids = {"train": 0, "validation": _VALIDATION_OFFSET}
        return {
            split: linked_records(rows, images[split], first_id=first_ids[split])
            for split, rows in links.items()
        }


class _Links:
    """A published file: caption, tab, url."""

    def __init__(self, path: pathlib.Path) -> None:
        self._lines = TextLines(path)
        self._first = int(len(self._lines) > 0 and self._lines[0].strip() == _HEADER)

    def __len__(self) -> int:
        return len(self._lines) - self._first

    def url(self, row: int) -> bytes:
        return self._fields(row)[2]

    def caption(self, row: int) -> bytes:
        return self._fields(row)[0]

    def where(self, row: int) -> str:
        return f"{self._lines.path.name} line {row + self._first + 1}"

    def _fields(self, row: int) -> tuple[bytes, bytes, bytes]:
        return self._lines[row + self._first].partition(b"\t")
