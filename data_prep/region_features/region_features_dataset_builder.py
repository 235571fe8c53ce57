"""Precomputed features of COCO, Flickr30k or any other images."""

import pathlib
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import tensorflow_datasets as tfds

from data_prep import schema
from data_prep.building.random_access import RandomAccessBuilder, configs
from data_prep.building.record_counts import LeftOut, Record
from data_prep.region_features import detections
from data_prep.region_features.feature_stores import open_features
from data_prep.region_features.scan_files import open_split

# SCAN's names -> ours, and the first id if the files give none, so that ids never collide.
_SPLITS = {
    "train": ("train", 0),
    "dev": ("validation", 10_000_000),
    "test": ("test", 20_000_000),
    "testall": ("testall", 30_000_000),
}
# VinVL's rows end with six numbers of their boxes.
_SCAN, _ANY, _VINVL = (36, 2048), (None, 2048), (None, 2054)


# Config -> description, rows and channels of an image (None for any number of rows), and the
# dataset whose captions, in Karpathy's split, are joined to detections: "own" for any images, in a
# file of the same format, "" for SCAN's files, which contain captions.
_CONFIGS: dict[str, tuple[str, Any, str]] = {
    "coco": ("SCAN's coco_precomp: 36 regions of every COCO image.", _SCAN, ""),
    "flickr30k": ("SCAN's f30k_precomp: 36 regions of every Flickr30k image.", _SCAN, ""),
    "regions": ("36 regions of any images.", _SCAN, ""),
    "grid_7x7": ("Maps of 7 x 7 x 2048 of any images, from ResNets.", (49, 2048), ""),
    "coco_detections": ("Regions of every COCO image.", _ANY, "coco"),
    "flickr30k_detections": ("Regions of every Flickr30k image.", _ANY, "flickr30k"),
    "coco_vinvl": ("VinVL's regions of every COCO image.", _VINVL, "coco"),
    "detections": ("Any number of regions of any images.", _ANY, "own"),
    "vinvl": ("VinVL's regions of any images.", _VINVL, "own"),
}


class Builder(RandomAccessBuilder):
    """TFDS builder of region and grid features.

    Configs of detections have the ids and captions of `coco_captions` and `flickr30k`, or of a
    `dataset.json`. The others have five captions per image; their image ids are those of
    `{split}_ids.txt` and caption ids those of `{split}_capids.txt`. Without these files, they are
    row and line numbers starting at 0, 10, 20 and 30 million for train, dev, test and testall.
    Features are stored as float16.
    """

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = configs(**{name: text for name, (text, *_) in _CONFIGS.items()})
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
        _, shape, _ = _CONFIGS[self.builder_config.name]
        rows = schema.feature_vector(*shape)
        return schema.captioned_image_features(rows, tags=shape == _VINVL)

    def _splits(self, folder: pathlib.Path) -> Mapping[str, Iterable[Record | LeftOut]]:
        name = self.builder_config.name
        (_, shape, karpathy), expected = _CONFIGS[name], self.EXPECTED.get(name, {})
        if karpathy:
            photographs = detections.read_photographs(folder, karpathy)
            found = {split: len(images) for split, images in photographs.items()}
            schema.check_counts(found, expected, str(folder))
            readers = open_features(folder / "features")
            tags = detections.read_tags(folder / "features") if shape == _VINVL else None
            return {
                split: detections.examples(images, readers, shape[1], tags)
                for split, images in photographs.items()
            }
        counts, splits = {}, {}
        for theirs, (split, first_id) in _SPLITS.items():
            if theirs != "testall" or (folder / "testall_ims.npy").exists() or theirs in expected:
                counts[theirs], splits[split] = open_split(folder, theirs, shape, first_id)
        schema.check_counts(counts, expected, str(folder))
        return splits
