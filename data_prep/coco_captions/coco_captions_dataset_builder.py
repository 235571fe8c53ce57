"""MS-COCO captions in Karpathy's split: 123,287 photographs with five to seven captions each."""

import json
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import tensorflow_datasets as tfds

from data_prep import schema
from data_prep.coco_captions.plain_captions import has_plain_captions, read_plain_captions
from data_prep.image_check import BadImageError
from data_prep.image_files import ImageFiles
from data_prep.records import LeftOut, Record

# Retrieval and CxC are defined on the first five captions of an image.
_EVALUATION_CAPTIONS = 5


class Builder(schema.RandomAccessBuilder):
    """TFDS builder of MS-COCO captions; image and caption ids are those of COCO."""

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS: ClassVar[list[tfds.core.BuilderConfig]] = [
        tfds.core.BuilderConfig(
            name="images", description="Karpathy's train and restval images for training."
        ),
        tfds.core.BuilderConfig(
            name="images_without_restval", description="Only Karpathy's train images for training."
        ),
        tfds.core.BuilderConfig(
            name="captions", description="The captions of `images` for text-only models, no images."
        ),
    ]
    MANUAL_DOWNLOAD_INSTRUCTIONS = """
    Put into one folder
      - dataset_coco.json from https://cs.stanford.edu/people/karpathy/deepimagesent/caption_datasets.zip
      - train2014.zip and val2014.zip from https://cocodataset.org/#download, or the folders
        train2014/ and val2014/ unpacked from them.
    The config `captions` reads no images. Without dataset_coco.json it takes as many captions as
    there are in plain caption files (data_prep/coco_captions/README.md has their form).
    """
    EXPECTED: ClassVar[dict[str, int]] = {
        "train": 82783,
        "restval": 30504,
        "val": 5000,
        "test": 5000,
        "captions": 616767,
    }

    def _info(self) -> tfds.core.DatasetInfo:
        pixels = tfds.features.Image(shape=(None, None, 3))
        with_images = self.builder_config.name != "captions"
        return self.dataset_info_from_configs(
            features=schema.captioned_image_features(pixels if with_images else None),
            homepage="https://cocodataset.org",
            metadata=tfds.core.MetadataDict(complete=True),
        )

    def _splits(self, folder: pathlib.Path) -> dict[str, Iterator[Record | LeftOut]]:
        source, captions_only = folder / "dataset_coco.json", self.builder_config.name == "captions"
        if source.exists():
            records = self._read_karpathy(source)
        elif captions_only and has_plain_captions(folder):
            records = read_plain_captions(folder)
            self.info.metadata["complete"] = False
        else:
            raise FileNotFoundError(f"{source} does not exist")
        files = {}
        if not captions_only:
            files = {
                name: ImageFiles(folder / name, folder / f"{name}.zip")
                for name in ("train2014", "val2014")
            }
        train = records["train"]
        if self.builder_config.name != "images_without_restval":
            train = train + records["restval"]
        splits = {
            "train": (train, None),
            "validation": (records["val"], _EVALUATION_CAPTIONS),
            "test": (records["test"], _EVALUATION_CAPTIONS),
        }
        return {
            split: self._examples(images, files, captions)
            for split, (images, captions) in splits.items()
            if images
        }

    def _read_karpathy(self, source: pathlib.Path) -> dict[str, list[dict[str, Any]]]:
        records: dict[str, list[dict[str, Any]]] = {}
        for record in json.loads(source.read_text(encoding="utf-8"))["images"]:
            records.setdefault(record["split"], []).append(record)
        found = {split: len(images) for split, images in records.items()}
        found["captions"] = sum(
            len(image["sentences"]) for images in records.values() for image in images
        )
        schema.check_counts(found, self.EXPECTED, str(source))
        return records

    def _examples(
        self,
        records: Sequence[Mapping[str, Any]],
        files: Mapping[str, ImageFiles],
        captions: int | None = None,
    ) -> Iterator[Record | LeftOut]:
        """Yields the images of a split, each with its first `captions` captions, None for all.

        Without `files` the pixels are left out.
        """
        for record in records:
            sentences = record["sentences"][:captions]
            if captions is not None and len(sentences) < captions:
                raise schema.UnexpectedFilesError(
                    f"image {record['cocoid']} has {len(sentences)} captions instead of {captions}"
                )
            example = {
                "image_id": record["cocoid"],
                "captions": [sentence["raw"] for sentence in sentences],
                "caption_ids": [sentence["sentid"] for sentence in sentences],
            }
            if files:
                try:
                    example["image"] = files[record["filepath"]].read(record["filename"])
                except BadImageError as error:
                    yield LeftOut(record["filename"], error.reason, error.detail)
                    continue
            yield record["cocoid"], example
