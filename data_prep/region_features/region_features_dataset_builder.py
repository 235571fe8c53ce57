"""Precomputed features of COCO, Flickr30k or any other images."""

import dataclasses
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

import tensorflow_datasets as tfds

from data_prep import schema
from data_prep.building.random_access import RandomAccessBuilder
from data_prep.building.record_counts import LeftOut, Record
from data_prep.reading.text_lines import read_caption
from data_prep.region_features import detections
from data_prep.region_features.feature_stores import open_features
from data_prep.region_features.scan_files import CAPTIONS_PER_IMAGE, FeatureFiles, open_split

# SCAN's names -> ours, and the first id if the files give none, so that ids never collide.
_SPLITS = {
    "train": ("train", 0),
    "dev": ("validation", 10_000_000),
    "test": ("test", 20_000_000),
    "testall": ("testall", 30_000_000),
}
# VinVL's rows end with six numbers of their boxes.
_SCAN, _ANY, _VINVL = (36, 2048), (None, 2048), (None, 2054)


@dataclasses.dataclass(kw_only=True)
class FeatureConfig(tfds.core.BuilderConfig):
    """Features of one kind.

    Attributes:
      shape: rows and channels of an image; None for any number of rows.
      karpathy: dataset whose captions, in Karpathy's split, are joined to the detections; "own" for
        any images, in a file of the same format; "" for SCAN's files, which contain captions.
      has_tags: whether the objects of an image are named.
    """

    shape: tuple[int | None, int]
    karpathy: str
    has_tags: bool


class Builder(RandomAccessBuilder):
    """TFDS builder of region and grid features.

    Configs of detections have the ids and captions of `coco_captions` and `flickr30k`, or of a
    `dataset.json`. The others have five captions per image; their image ids are those of
    `{split}_ids.txt` and caption ids those of `{split}_capids.txt`. Without these files, they are
    row and line numbers starting at 0, 10, 20 and 30 million for train, dev, test and testall.
    Features are stored as float16.
    """

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = [  # noqa: RUF012
        FeatureConfig(
            name=name, description=text, shape=shape, karpathy=karpathy, has_tags=shape == _VINVL
        )
        for name, text, shape, karpathy in (
            ("coco", "SCAN's coco_precomp: 36 regions of every COCO image.", _SCAN, ""),
            ("flickr30k", "SCAN's f30k_precomp: 36 regions of every Flickr30k image.", _SCAN, ""),
            ("regions", "36 regions of any images.", _SCAN, ""),
            ("grid_7x7", "Maps of 7 x 7 x 2048 of any images, from ResNets.", (49, 2048), ""),
            ("coco_detections", "Regions of every COCO image.", _ANY, "coco"),
            ("flickr30k_detections", "Regions of every Flickr30k image.", _ANY, "flickr30k"),
            ("coco_vinvl", "VinVL's regions of every COCO image.", _VINVL, "coco"),
            ("detections", "Any number of regions of any images.", _ANY, "own"),
            ("vinvl", "VinVL's regions of any images.", _VINVL, "own"),
        )
    ]
    HOMEPAGE = "https://github.com/kuanghuei/SCAN"
    # Config -> published number of images in each split; other configs may have any number.
    EXPECTED: ClassVar[dict[str, dict[str, int]]] = {
        "coco": {"train": 113_287, "dev": 5_000, "test": 1_000, "testall": 5_000},
        "flickr30k": {"train": 29_000, "dev": 1_014, "test": 1_000},
        "coco_detections": {"train": 113_287, "validation": 5_000, "test": 5_000},
        "flickr30k_detections": {"train": 29_000, "validation": 1_014, "test": 1_000},
        "coco_vinvl": {"train": 113_287, "validation": 5_000, "test": 5_000},
    }

    @classmethod
    def reads_own_files(cls, config: str | None) -> bool:
        """See `RandomAccessBuilder`: published features need no folder once they are prepared."""
        return config is not None and config not in cls.EXPECTED

    def _features(self) -> tfds.features.FeaturesDict:
        config = self.builder_config
        return schema.captioned_image_features(
            schema.feature_vector(*config.shape), tags=config.has_tags
        )

    def _splits(self, folder: pathlib.Path) -> Mapping[str, Iterable[Record | LeftOut]]:
        config, expected = self.builder_config, self.EXPECTED.get(self.builder_config.name, {})
        if config.karpathy:
            photographs = detections.read_photographs(folder, config.karpathy)
            found = {split: len(images) for split, images in photographs.items()}
            schema.check_counts(found, expected, str(folder))
            readers = open_features(folder / "features")
            tags = detections.read_tags(folder / "features") if config.has_tags else None
            return {
                split: detections.examples(images, readers, config.shape[1], tags)
                for split, images in photographs.items()
            }
        files = {
            name: open_split(folder, name, config.shape)
            for name in _SPLITS
            if name != "testall" or (folder / f"{name}_ims.npy").exists() or name in expected
        }
        found = {name: split.num_images for name, split in files.items()}
        schema.check_counts(found, expected, str(folder))
        return {
            _SPLITS[name][0]: _examples(split, name, config.shape) for name, split in files.items()
        }


def _examples(
    files: FeatureFiles, split: str, shape: tuple[int, int]
) -> Iterator[Record | LeftOut]:
    _, first_id = _SPLITS[split]
    for number in range(files.num_images):
        where = f"{split}_ims.npy image {number}"
        try:
            features = files.image(number, shape)
        except ValueError as error:
            yield LeftOut(where, "bad features", str(error))
            continue
        lines = range(number * CAPTIONS_PER_IMAGE, (number + 1) * CAPTIONS_PER_IMAGE)
        captions = [
            read_caption(files.captions[line], f"{split}_caps.txt line {line + 1}")
            for line in lines
        ]
        if bad := next((caption for caption in captions if isinstance(caption, LeftOut)), None):
            yield bad
            continue
        numbers = files.image_ids
        image_id = first_id + number if numbers is None else int(numbers[number])
        numbers = files.caption_ids
        ids = [first_id + line if numbers is None else int(numbers[line]) for line in lines]
        texts = [caption for caption in captions if isinstance(caption, str)]
        numbered = list(zip(ids, texts, strict=True))
        yield image_id, schema.captioned_example(image_id, numbered, image=features)
