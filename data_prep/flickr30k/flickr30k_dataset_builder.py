"""Flickr30k: about 31,000 photographs of people and animals with five captions each."""

import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

import tensorflow_datasets as tfds

from data_prep import schema
from data_prep.building.random_access import RandomAccessBuilder, configs
from data_prep.building.record_counts import Record
from data_prep.flickr30k.flickr30k_files import read_entities
from data_prep.reading.image_files import ImageFiles, open_images
from data_prep.reading.published_files import Photograph, count, in_splits, read_karpathy

# The release, and Kaggle's copy.
_IMAGES = ("flickr30k-images", "flickr30k_images")


class Builder(RandomAccessBuilder):
    """TFDS builder of Flickr30k, in either of its two common splits."""

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = configs(
        images="Karpathy's split.",
        captions="The captions of `images` for text-only models, no images.",
        entities="The split of Flickr30k Entities, with more images.",
    )
    HOMEPAGE = "https://shannon.cs.illinois.edu/DenotationGraph/"
    EXPECTED: ClassVar[dict[str, dict[str, int]]] = {
        "karpathy": {"train": 29_000, "validation": 1_014, "test": 1_000, "captions": 155_070},
        "entities": {"train": 29_783, "validation": 1_000, "test": 1_000, "captions": 158_915},
    }

    def _features(self) -> tfds.features.FeaturesDict:
        return schema.captioned_image_features(schema.PIXELS if self._with_images else None)

    @property
    def _with_images(self) -> bool:
        return self.builder_config.name != "captions"

    def _splits(self, folder: pathlib.Path) -> Mapping[str, Iterable[Record]]:
        if self.builder_config.name == "entities":
            splits, expected = read_entities(folder), self.EXPECTED["entities"]
        else:
            splits = in_splits(read_karpathy(folder, "flickr30k"))
            expected = self.EXPECTED["karpathy"]
        schema.check_counts(count(splits), expected, str(folder))
        files = open_images(folder, *_IMAGES) if self._with_images else None
        return {split: _examples(images, files) for split, images in splits.items()}


def _examples(images: Iterable[Photograph], files: ImageFiles | None) -> Iterator[Record]:
    for image in images:
        features = {} if files is None else {"image": files.image(image.name)}
        captions = image.captions
        yield image.image_id, schema.captioned_example(image.image_id, captions, **features)
