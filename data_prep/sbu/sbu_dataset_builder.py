"""SBU Captioned Photos: a million Flickr images, each with what its owner wrote about it."""

import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

import numpy as np
import tensorflow_datasets as tfds

from data_prep import schema
from data_prep.building.records import LeftOut, Record
from data_prep.errors import UnexpectedFilesError
from data_prep.published import Figure, Unknown
from data_prep.reading.fetched_images import RowIndex, row_of_name, text_hash
from data_prep.reading.linked_captions import linked_records
from data_prep.reading.text_lines import TextLines

_URLS = "SBU_captioned_photo_dataset_urls.txt"
_CAPTIONS = "SBU_captioned_photo_dataset_captions.txt"
_COPIES = Unknown("people upload a picture more than once, and Flickr sends one for all it lost")


class Builder(schema.RandomAccessBuilder):
    """TFDS builder of SBU Captioned Photos.

    Image and caption ids are the line numbers of the published files, counted from 0. A split of
    its own was never published; VETE took 50,000 random pairs for validation and 50,000 for the
    test. Here those are drawn by a hash of the url, which needs no seed and does not depend on the
    images that are still to be had.
    """

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS: ClassVar[list[tfds.core.BuilderConfig]] = [
        tfds.core.BuilderConfig(name="images", description="Flickr images with one caption each."),
    ]
    MANUAL_DOWNLOAD_INSTRUCTIONS = """
    Put into one folder
      - SBU_captioned_photo_dataset_urls.txt and SBU_captioned_photo_dataset_captions.txt from
        SBUCaptionedPhotoDataset.tar.gz of https://www.cs.rice.edu/~vo9/sbucaptions/
      - images/ with what could be fetched: the output of img2dataset (any of webdataset, parquet
        and files), or images named by line number (0.jpg is the first) or as in their url.
    """
    EXPECTED: ClassVar[dict[str, int]] = {"rows": 1_000_000}
    # Of validation and test; the rest is for training.
    HELD_OUT: ClassVar[int] = 50_000
    MIN_KEPT = 0.5

    def _info(self) -> tfds.core.DatasetInfo:
        return self.dataset_info_from_configs(
            features=schema.captioned_image_features(tfds.features.Image(shape=(None, None, 3))),
            homepage="https://www.cs.rice.edu/~vo9/sbucaptions/",
        )

    @classmethod
    def published_figures(cls, config: str) -> dict[str, Figure]:
        """See `RandomAccessBuilder`."""
        del config
        held_out = cls.HELD_OUT
        return {
            "train/records with those left out": cls.EXPECTED["rows"] - 2 * held_out,
            "validation/records with those left out": held_out,
            "test/records with those left out": held_out,
            "*/captions of an image": "1",
            "*/image also in *": _COPIES,
            "*/image and caption also in *": _COPIES,
        }

    def _splits(self, folder: pathlib.Path) -> Mapping[str, Iterable[Record | LeftOut]]:
        links = _Links(folder)
        schema.check_counts({"rows": len(links)}, self.EXPECTED, str(links.urls.path))
        images = folder / "images"
        if not images.is_dir():
            raise FileNotFoundError(f"{images} does not exist")
        index = RowIndex(links.urls)
        files = RowIndex(url.rpartition(b"/")[2] for url in links.urls)

        def rows_of_name(name: str) -> Sequence[int]:
            return row_of_name(name) or files.rows(pathlib.PurePosixPath(name).name)

        return {
            split: linked_records(links, images, index=index, names=rows_of_name, wanted=wanted)
            for split, wanted in split_rows(links.urls, self.HELD_OUT).items()
        }


def split_rows(urls: Iterable[bytes], held_out: int) -> dict[str, np.ndarray]:
    """Draws the splits: the urls with the smallest hashes are the test, the next the validation.

    Args:
      urls: of all rows.
      held_out: rows of validation and of test.

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


class _Links:
    """The two published files, which belong together line by line."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.urls, self._captions = TextLines(folder / _URLS), TextLines(folder / _CAPTIONS)
        if len(self.urls) != len(self._captions):
            raise UnexpectedFilesError(
                f"{self.urls.path} has {len(self.urls):,} lines and {_CAPTIONS} "
                f"{len(self._captions):,}; fetch both again"
            )

    def __len__(self) -> int:
        return len(self.urls)

    def url(self, row: int) -> bytes:
        return self.urls[row]

    def caption(self, row: int) -> bytes:
        return self._captions[row]

    def where(self, row: int) -> str:
        return f"{_CAPTIONS} line {row + 1}"
