"""Conceptual Captions: 3.3 million web images, each with its cleaned alt text as the caption."""

import pathlib
from collections.abc import Iterator, Mapping
from typing import ClassVar

import tensorflow_datasets as tfds

from data_prep import schema
from data_prep.records import LeftOut, Record

# Validation ids start here, so that they differ from the row numbers of the training file.
_VALIDATION_OFFSET = 10_000_000


class Builder(schema.RandomAccessBuilder):
    """TFDS builder of Conceptual Captions.

    Image and caption ids are the row numbers of the published files, counted from 0. The files list
    URLs and many of those are dead by now: rows without an image, and images that cannot be
    decoded, are left out, as long as half of them remain.
    """

    VERSION = tfds.core.Version("1.0.0")
    MIN_KEPT = 0.5
    BUILDER_CONFIGS: ClassVar[list[tfds.core.BuilderConfig]] = [
        tfds.core.BuilderConfig(name="images", description="Web images with one caption each."),
    ]
    MANUAL_DOWNLOAD_INSTRUCTIONS = """
    Put into one folder
      - Train_GCC-training.tsv and Validation_GCC-1.1.0-Validation.tsv from
        https://ai.google.com/research/ConceptualCaptions/download
      - training/ and validation/ with the images that could be fetched from the URLs in these
        files, named by the row number counted from 0: training/0.jpg, training/1.png, ...
    """
    EXPECTED: ClassVar[dict[str, int]] = {"train": 3318333, "validation": 15840}

    def _info(self) -> tfds.core.DatasetInfo:
        return self.dataset_info_from_configs(
            features=schema.captioned_image_features(tfds.features.Image(shape=(None, None, 3))),
            homepage="https://ai.google.com/research/ConceptualCaptions",
        )

    def _splits(self, folder: pathlib.Path) -> dict[str, Iterator[Record | LeftOut]]:
        captions = {
            "train": _read_captions(folder / "Train_GCC-training.tsv"),
            "validation": _read_captions(folder / "Validation_GCC-1.1.0-Validation.tsv"),
        }
        found = {split: len(rows) for split, rows in captions.items()}
        schema.check_counts(found, self.EXPECTED, str(folder))
        train, validation = (
            _images_by_row(folder / "training"),
            _images_by_row(folder / "validation"),
        )
        return {
            "train": _examples(captions["train"], train, 0),
            "validation": _examples(captions["validation"], validation, _VALIDATION_OFFSET),
        }


def _examples(
    captions: list[str], images: Mapping[int, pathlib.Path], first_id: int
) -> Iterator[Record | LeftOut]:
    for row, caption in enumerate(captions):
        if row not in images:
            yield LeftOut(f"row {row}", "no image")
            continue
        yield (
            first_id + row,
            {
                "image": images[row].read_bytes(),
                "image_id": first_id + row,
                "captions": [caption],
                "caption_ids": [first_id + row],
            },
        )


def _read_captions(path: pathlib.Path) -> list[str]:
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    with path.open(encoding="utf-8", newline="\n") as file:
        return [line.split("\t")[0] for line in file]


def _images_by_row(folder: pathlib.Path) -> dict[int, pathlib.Path]:
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} does not exist")
    return {int(path.stem): path for path in folder.iterdir() if path.stem.isdecimal()}
