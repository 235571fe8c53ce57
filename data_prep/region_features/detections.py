"""Karpathy's captions of COCO and Flickr30k, joined with the regions that a detector found."""

import pathlib
from collections.abc import Iterable, Iterator

import numpy as np

from data_prep.building.records import LeftOut, Record
from data_prep.coco_captions.caption_splits import read_karpathy_split
from data_prep.flickr30k.flickr30k_files import Photograph, read_karpathy
from data_prep.region_features.feature_stores import FeatureStores, number_of_name
from data_prep.region_features.scan_files import to_float16

# Split of COCO -> Karpathy's, and captions of an image: evaluation knows five.
_COCO = {
    "train": (("train", "restval"), None),
    "validation": (("val",), 5),
    "test": (("test",), 5),
}


def read_photographs(folder: pathlib.Path, dataset: str) -> dict[str, list[Photograph]]:
    """Reads the images of a dataset with their captions.

    Args:
      folder: of the files that were fetched by hand.
      dataset: "coco" or "flickr30k".

    Returns:
      Split -> its images.

    Raises:
      FileNotFoundError: a file is missing.
      UnexpectedFilesError: a file is damaged or of another form.
    """
    if dataset == "flickr30k":
        return read_karpathy(folder)[0]
    records, _ = read_karpathy_split(folder)
    splits: dict[str, list[Photograph]] = {}
    for split, (parts, most) in _COCO.items():
        splits[split] = [
            Photograph(
                image["filename"],
                image["cocoid"],
                tuple((each["sentid"], each["raw"]) for each in image["sentences"][:most]),
            )
            for part in parts
            for image in records.get(part, [])
        ]
    return splits


def examples(
    images: Iterable[Photograph], stores: FeatureStores, channels: int
) -> Iterator[Record | LeftOut]:
    """Joins images with their features by the number in the name of their file.

    Args:
      images: of a split.
      stores: of features.
      channels: C, of every region.

    Yields:
      Examples with `image` float16 [R, C], and images without sound features.
    """
    for image in images:
        number = number_of_name(image.name)
        if number is None or number not in stores:
            yield LeftOut(image.name, "no features")
            continue
        features = stores.read(number)
        if isinstance(features, np.ndarray):
            if features.shape[1] == channels:
                features = to_float16(features)
            else:
                features = f"{list(features.shape)} instead of [regions, {channels}]"
        if isinstance(features, str):
            yield LeftOut(image.name, "bad features", features)
            continue
        yield (
            image.image_id,
            {
                "image": features,
                "image_id": image.image_id,
                "captions": [text for _, text in image.captions],
                "caption_ids": [id_ for id_, _ in image.captions],
            },
        )
