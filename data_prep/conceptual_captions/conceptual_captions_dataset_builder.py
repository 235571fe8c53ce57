"""Conceptual Captions: 3.3 million web images, each with its cleaned alt text as the caption."""

import io
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import tensorflow as tf
import tensorflow_datasets as tfds
from absl import logging

from data_prep import schema

# Validation ids start here, so that they differ from the row numbers of the training file.
_VALIDATION_OFFSET = 10_000_000


class Builder(schema.RandomAccessBuilder):
    """TFDS builder of Conceptual Captions.

    Image and caption ids are the row numbers of the published files, counted from 0. The files list
    URLs and many of those are dead by now: rows without an image, and images that cannot be
    decoded, are left out, and their numbers are logged.
    """

    VERSION = tfds.core.Version("1.0.0")
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

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Any]:
        folder = pathlib.Path(dl_manager.manual_dir)
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
            "train": self._generate_examples(captions["train"], train, 0),
            "validation": self._generate_examples(
                captions["validation"], validation, _VALIDATION_OFFSET
            ),
        }

    def _generate_examples(
        self, captions: list[str], images: Mapping[int, pathlib.Path], first_id: int
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        rows = sorted(images.keys() & range(len(captions)))
        undecodable = 0
        for row in rows:
            encoded = images[row].read_bytes()
            if not _is_decodable(encoded):
                undecodable += 1
                continue
            yield (
                first_id + row,
                {
                    "image": io.BytesIO(encoded),
                    "image_id": first_id + row,
                    "captions": [captions[row]],
                    "caption_ids": [first_id + row],
                },
            )
        logging.info(
            "Conceptual Captions: of %d rows %d have an image; %d of these could not be decoded.",
            len(captions),
            len(rows),
            undecodable,
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


def _is_decodable(encoded: bytes) -> bool:
    """Whether the decoder that training uses accepts an image."""
    try:
        tf.io.decode_image(encoded, channels=3, expand_animations=False)
    except tf.errors.InvalidArgumentError:
        return False
    return True
