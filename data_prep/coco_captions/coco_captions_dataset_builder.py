"""MS-COCO captions: 123,287 photographs with five to seven captions each."""

import functools
import pathlib
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import tensorflow_datasets as tfds

from data_prep import schema
from data_prep.building.random_access import RandomAccessBuilder, configs
from data_prep.building.record_counts import LeftOut, Record
from data_prep.caption_pairs import caption_pairs
from data_prep.coco_captions.categories import Categories, read_categories
from data_prep.coco_captions.pictures import Pictures
from data_prep.coco_captions.plain_captions import has_plain_captions, read_plain_captions
from data_prep.reading import published_files
from data_prep.reading.image_files import ImageFile

# im2txt cuts val2014 here, in percent of its images and in the order of the annotation file.
_TRAIN_UNTIL, _VALIDATION_UNTIL = 85, 90
# Retrieval and CxC are defined on the first five captions of an image.
_EVALUATION_CAPTIONS = 5


class Builder(RandomAccessBuilder):
    """TFDS builder of MS-COCO captions; image and caption ids are those of COCO."""

    VERSION = tfds.core.Version("1.1.0")
    BUILDER_CONFIGS = configs(
        images="Karpathy's train and restval images for training.",
        images_without_restval="Only Karpathy's train images for training.",
        captions="The captions of `images` for text-only models, no images.",
        captions_without_restval="The captions of `images_without_restval`, no images.",
        im2txt="The split of im2txt, with all captions.",
        im2txt_one_caption="The split of im2txt with one caption per image, the first, as in VETE.",
        im2txt_test_pairs="Caption pairs from the same and from different test images of im2txt.",
    )
    HOMEPAGE = "https://cocodataset.org"
    UNIQUE_IDS: ClassVar[tuple[str, ...]] = ("image_id", "caption_ids", "pair_id")
    EXPECTED: ClassVar[dict[str, int]] = {
        "train": 82783,
        "restval": 30504,
        "val": 5000,
        "test": 5000,
        "train2014": 82783,
        "val2014": 40504,
        "captions": 616767,
    }

    def _features(self) -> tfds.features.FeaturesDict:
        if self.builder_config.name == "im2txt_test_pairs":
            return schema.sentence_pair_features()
        pixels = schema.PIXELS if self._with_images else None
        return schema.captioned_image_features(pixels, categories=True)

    def _metadata(self) -> dict[str, Any]:
        return {"complete": True}

    @property
    def _with_images(self) -> bool:
        return not self.builder_config.name.startswith("captions")

    @property
    def _is_im2txt(self) -> bool:
        return self.builder_config.name.startswith("im2txt")

    def _splits(self, folder: pathlib.Path) -> dict[str, Iterator[Record | LeftOut]]:
        splits = self._read_im2txt(folder) if self._is_im2txt else self._read_karpathy(folder)
        if self.builder_config.name == "im2txt_test_pairs":
            images = [
                (each.image_id, [text for _, text in each.captions]) for each in splits["test"]
            ]
            return {"test": caption_pairs("coco_test", images)}
        pictures = None
        if self._with_images:
            pictures = Pictures(folder, partial=not self.info.metadata["complete"])
        categories = read_categories(folder)
        if categories is not None:
            self.info.metadata["categories"] = list(categories.names)
        return {
            split: _examples(images, pictures, categories, self._captions_of(split))
            for split, images in splits.items()
            if images
        }

    def _captions_of(self, split: str) -> int | None:
        """Number of captions to keep per image of a split; None for all."""
        if self._is_im2txt:
            return 1 if self.builder_config.name == "im2txt_one_caption" else None
        return None if split == "train" else _EVALUATION_CAPTIONS

    def _read_im2txt(self, folder: pathlib.Path) -> published_files.Photographs:
        """Reads the official captions in the split of im2txt, which VETE uses.

        Training has all images of train2014 and the first 85 % of val2014, validation the next 5 %
        and test the last 10 %.
        """
        parts = {
            part: published_files.read_official(folder, part) for part in ("train2014", "val2014")
        }
        names = ("train2014", "val2014", "captions")
        expected = {name: self.EXPECTED[name] for name in names}
        source = f"{folder} (captions_*2014.json)"
        schema.check_counts(published_files.count(parts), expected, source)
        train, val = parts.values()
        first, second = (len(val) * cut // 100 for cut in (_TRAIN_UNTIL, _VALIDATION_UNTIL))
        return {"train": train + val[:first], "validation": val[first:second], "test": val[second:]}

    def _read_karpathy(self, folder: pathlib.Path) -> published_files.Photographs:
        if not published_files.has_json(folder, "dataset_coco.json") and has_plain_captions(folder):
            karpathy = read_plain_captions(folder)
            self.info.metadata["complete"] = False
        else:
            karpathy = published_files.read_karpathy(folder, "dataset_coco.json")
            names = ("train", "restval", "val", "test", "captions")
            expected = {name: self.EXPECTED[name] for name in names}
            schema.check_counts(
                published_files.count(karpathy), expected, f"{folder} (Karpathy's split)"
            )
        splits = published_files.in_splits(karpathy)
        if self.builder_config.name.endswith("without_restval"):
            splits["train"] = list(karpathy.get("train", []))
        return splits


def _examples(
    photographs: Iterable[published_files.Photograph],
    pictures: Pictures | None,
    categories: Categories | None,
    most: int | None,
) -> Iterator[Record | LeftOut]:
    """Yields the images of a split, each with its first `most` captions (None for all).

    Without `pictures` the pixels are left out.
    """
    for photograph in photographs:
        image_id, captions = photograph.image_id, photograph.captions[:most]
        if most is not None and len(captions) < most:
            detail = f"image {image_id} has {len(captions)} instead of {most}"
            yield LeftOut(photograph.name, "too few captions", detail)
            continue
        features: dict[str, Any] = {"categories": categories.of(image_id) if categories else []}
        if pictures is not None:
            read = functools.partial(pictures.read, image_id)
            features["image"] = ImageFile(photograph.name, read)
        yield image_id, schema.captioned_example(image_id, captions, **features)
