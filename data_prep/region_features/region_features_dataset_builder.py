"""Precomputed features of COCO, Flickr30k or any other images, in the layout that SCAN released."""

import dataclasses
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

import tensorflow_datasets as tfds

from data_prep import schema
from data_prep.building.records import LeftOut, Record
from data_prep.published import Figure, Unknown
from data_prep.reading.text_lines import read_caption
from data_prep.region_features.scan_files import CAPTIONS_PER_IMAGE, FeatureFiles, open_split

# SCAN's names -> ours, and the first id where the files give none: no two splits share one.
_SPLITS = {
    "train": ("train", 0),
    "dev": ("validation", 10_000_000),
    "test": ("test", 20_000_000),
    "testall": ("testall", 30_000_000),
}


@dataclasses.dataclass(kw_only=True)
class FeatureConfig(tfds.core.BuilderConfig):
    """Features of one kind.

    Attributes:
      shape: rows and channels of an image.
      images: published number of images of each split, empty if any number will do.
    """

    shape: tuple[int, int] = (36, 2048)
    images: Mapping[str, int] = dataclasses.field(default_factory=dict)


class Builder(schema.RandomAccessBuilder):
    """TFDS builder of region and grid features, five captions per image.

    Image ids are those of `{split}_ids.txt` and caption ids those of `{split}_capids.txt`. Without
    these files they are numbers of rows and lines, from 0, 10, 20 and 30 million on for train, dev,
    test and testall. Features are stored as float16.
    """

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS: ClassVar[list[tfds.core.BuilderConfig]] = [
        FeatureConfig(
            name="coco",
            description="SCAN's coco_precomp: 36 regions of every COCO image.",
            images={"train": 113_287, "dev": 5_000, "test": 1_000, "testall": 5_000},
        ),
        FeatureConfig(
            name="flickr30k",
            description="SCAN's f30k_precomp: 36 regions of every Flickr30k image.",
            images={"train": 29_000, "dev": 1_014, "test": 1_000},
        ),
        FeatureConfig(name="regions", description="36 regions of any images."),
        FeatureConfig(
            name="grid_7x7",
            description="Maps of 7 x 7 x 2048 of any images, as ResNets have them.",
            shape=(49, 2048),
        ),
    ]
    MANUAL_DOWNLOAD_INSTRUCTIONS = """
    Put into one folder the files of data/coco_precomp or data/f30k_precomp that SCAN released
    (https://github.com/kuanghuei/SCAN), or your own of the same form:
      - train_ims.npy, dev_ims.npy, test_ims.npy and, for COCO, testall_ims.npy: floating point
        numbers [images, 36, 2048], or every image five times
      - train_caps.txt, ...: five lines per image
      - train_ids.txt, ... and train_capids.txt, ...: ids of images and of captions, if known.
    """
    HOMEPAGE = "https://github.com/kuanghuei/SCAN"

    def _features(self) -> tfds.features.FeaturesDict:
        return schema.captioned_image_features(schema.feature_vector(*self.builder_config.shape))

    @classmethod
    def published_figures(cls, config: str) -> dict[str, Figure]:
        """See `RandomAccessBuilder`."""
        figures: dict[str, Figure] = {
            "*/captions of an image": "5",
            "testall/* also in test": Unknown("test is the first part of testall"),
        }
        for name, images in cls.builder_configs[config].images.items():
            split = _SPLITS[name][0]
            figures |= {f"{split}/records": images, f"{split}/captions": 5 * images}
        return figures

    def _splits(self, folder: pathlib.Path) -> Mapping[str, Iterable[Record | LeftOut]]:
        config = self.builder_config
        files = {
            name: open_split(folder, name, config.shape)
            for name in _SPLITS
            if name != "testall" or (folder / f"{name}_ims.npy").exists() or name in config.images
        }
        found = {name: split.num_images for name, split in files.items()}
        schema.check_counts(found, config.images, str(folder))
        return {
            _SPLITS[name][0]: _examples(split, name, config.shape) for name, split in files.items()
        }


def _examples(
    files: FeatureFiles, split: str, shape: tuple[int, int]
) -> Iterator[Record | LeftOut]:
    _, first_id = _SPLITS[split]
    for number in range(files.num_images):
        where = f"{split}_ims.npy image {number}"
        features = files.image(number, shape)
        if isinstance(features, str):
            yield LeftOut(where, "bad features", features)
            continue
        lines = range(number * CAPTIONS_PER_IMAGE, (number + 1) * CAPTIONS_PER_IMAGE)
        captions = [
            read_caption(files.captions[line], f"{split}_caps.txt line {line + 1}")
            for line in lines
        ]
        if bad := next((caption for caption in captions if isinstance(caption, LeftOut)), None):
            yield bad
            continue
        ids = files.image_ids
        image_id = first_id + number if ids is None else int(ids[number])
        ids = files.caption_ids
        yield (
            image_id,
            {
                "image": features,
                "image_id": image_id,
                "captions": captions,
                "caption_ids": [first_id + k if ids is None else int(ids[k]) for k in lines],
            },
        )
