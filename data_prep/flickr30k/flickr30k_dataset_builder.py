"""Flickr30k: about 31,000 photographs of people and animals with five captions each."""

import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

import tensorflow_datasets as tfds

from data_prep import schema
from data_prep.building.random_access import RandomAccessBuilder, configs
from data_prep.building.record_counts import Record
from data_prep.reading.csv_files import read_csv
from data_prep.reading.image_files import ImageFiles, open_images
from data_prep.reading.published_files import Photograph, count, in_splits, read_karpathy
from xmodal.core.errors import UnexpectedFilesError

# The release, and Kaggle's copy.
_IMAGES = ("flickr30k-images", "flickr30k_images")
# Lists of Flickr30k Entities -> our splits.
_LISTS = {"train": "train", "val": "validation", "test": "test"}
_TOKENS = "results_20130124.token"


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
            splits = in_splits(read_karpathy(folder, "dataset_flickr30k.json"))
            expected = self.EXPECTED["karpathy"]
        schema.check_counts(count(splits), expected, str(folder))
        files = open_images(folder, *_IMAGES) if self._with_images else None
        return {split: _examples(images, files) for split, images in splits.items()}


def _examples(images: Iterable[Photograph], files: ImageFiles | None) -> Iterator[Record]:
    for image in images:
        features = {} if files is None else {"image": files.image(image.name)}
        captions = image.captions
        yield image.image_id, schema.captioned_example(image.image_id, captions, **features)


def read_entities(folder: pathlib.Path) -> dict[str, list[Photograph]]:
    """Reads all captions and the lists `train.txt`, `val.txt` and `test.txt`.

    Captions are those of `results_20130124.token`. The id of an image is its position among the
    sorted names of all images in the captions; the id of its k-th caption is 5 x image id + k.

    Returns:
      Split -> its images.

    Raises:
      FileNotFoundError: a file is missing.
      UnexpectedFilesError: a file is damaged, or the files do not match.
    """
    texts: dict[str, dict[int, str]] = {}
    for _, row in read_csv(
        folder / _TOKENS, columns=("key", "caption"), delimiter="\t", header=False, quotes=False
    ):
        name, _, number = row["key"].rpartition("#")
        texts.setdefault(name, {})[int(number)] = row["caption"]
    ids = {name: number for number, name in enumerate(sorted(texts))}
    splits = {}
    for name, split in _LISTS.items():
        names = _read_names(folder / f"{name}.txt")
        if unknown := [image for image in names if len(texts.get(image, ())) != 5]:
            raise UnexpectedFilesError(
                f"{folder / name}.txt lists {unknown[0]}, which does not have five captions in "
                f"{_TOKENS} ({len(unknown)} such images)"
            )
        splits[split] = [
            Photograph(image, n, tuple((5 * n + k, texts[image][k]) for k in range(5)))
            for image in names
            for n in [ids[image]]
        ]
    return splits


def _read_names(path: pathlib.Path) -> list[str]:
    """Names in a list of Flickr30k Entities, which omits their extension."""
    names = [row["name"] for _, row in read_csv(path, columns=("name",), header=False)]
    return [name if name.endswith(".jpg") else f"{name}.jpg" for name in map(str.strip, names)]
