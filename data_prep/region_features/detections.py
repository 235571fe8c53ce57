"""Captions in Karpathy's format, joined with the regions that a detector found."""

import dataclasses
import json
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from data_prep import schema
from data_prep.building.record_counts import LeftOut, Record
from data_prep.reading import published_files
from data_prep.reading.text_files import files_below
from data_prep.reading.text_lines import TextLines
from data_prep.region_features.feature_stores import TAGS, Reader, number_of_name
from data_prep.region_features.scan_files import to_float16
from xmodal.core.errors import UnexpectedFilesError
from xmodal.core.untrusted.saved_arrays import DAMAGE

# Number per image in evaluation; a few COCO images have more.
_MOST_CAPTIONS = 5


def read_photographs(folder: pathlib.Path, dataset: str) -> published_files.Photographs:
    """Reads the images of a dataset with their captions.

    Args:
      folder: folder of the manually downloaded files.
      dataset: "coco" or "flickr30k"; or "own" for the images of `dataset.json`, of any number.

    Returns:
      Split -> its images.

    Raises:
      FileNotFoundError: a file is missing.
      UnexpectedFilesError: a file is damaged or in another format; or two images of one's own have
        the same number, so that their features cannot be told apart.
    """
    name = "dataset.json" if dataset == "own" else f"dataset_{dataset}.json"
    splits = published_files.in_splits(published_files.read_karpathy(folder, name))
    if dataset == "coco":
        for split in ("validation", "test"):
            splits[split] = [
                dataclasses.replace(each, captions=each.captions[:_MOST_CAPTIONS])
                for each in splits[split]
            ]
    names = [image.name for images in splits.values() for image in images]
    numbers = [number for number in map(number_of_name, names) if number is not None]
    if dataset == "own" and len(set(numbers)) < len(numbers):
        raise UnexpectedFilesError(
            f"{folder / name}: two images end in the same number, by which features are found; "
            "rename one of them, also in its features"
        )
    return splits


def examples(
    images: Iterable[published_files.Photograph],
    readers: Mapping[int, Reader],
    channels: int,
    tags: Mapping[int, str] | None = None,
) -> Iterator[Record | LeftOut]:
    """Joins images with their features by the number in the name of their file.

    Args:
      images: images of a split.
      readers: readers of the features by image number.
      channels: number C of channels of every region.
      tags: names of the objects by the number of the image; None for none.

    Yields:
      Examples with `image` float16 [R, C], and images without valid features, or without tags.
    """
    for image in images:
        number = number_of_name(image.name)
        if number is None or number not in readers:
            yield LeftOut(image.name, "no features")
        elif tags is not None and number not in tags:
            yield LeftOut(image.name, "no tags")
        else:
            try:
                columns: dict[str, Any] = {"image": _read(readers[number], channels)}
            except DAMAGE as error:
                yield LeftOut(image.name, "bad features", f"{type(error).__name__}: {error}")
                continue
            if tags is not None:
                columns["tags"] = tags[number]
            example = schema.captioned_example(image.image_id, image.captions, **columns)
            yield image.image_id, example


def _read(read: Reader, channels: int) -> np.ndarray:
    features = np.asarray(read())
    shape = features.shape
    if len(shape) != 2 or features.dtype.kind != "f" or not shape[0] or shape[1] != channels:
        raise ValueError(
            f"{features.dtype} {list(shape)}, not floating point [regions, {channels}]"
        )
    return to_float16(features)


def read_tags(folder: pathlib.Path) -> dict[int, str]:
    """Reads the objects of all images in a folder and its subfolders.

    A line has the name of an image and a JSON list of objects with their `class`, or `objects` with
    such a list; the order is kept, as in microsoft/Oscar (oscar/run_retrieval.py).

    Returns:
      Number of an image -> names of its objects, joined by spaces.

    Raises:
      FileNotFoundError: there is no file.
      UnexpectedFilesError: a line has another form, or an image has two.
    """
    tags: dict[int, str] = {}
    paths = files_below(folder, TAGS)
    if not paths:
        raise FileNotFoundError(f"{folder} has no {TAGS}")
    for path in paths:
        for place, line in enumerate(TextLines(path), start=1):
            name, _, content = line.partition(b"\t")
            try:
                number = number_of_name(name.decode())
                if number is None:
                    raise ValueError("it names no image")
                found = json.loads(content)
                objects = found["objects"] if isinstance(found, dict) else found
                tags[number] = " ".join(each["class"] for each in objects)
            except (ValueError, KeyError, TypeError) as error:
                raise UnexpectedFilesError(
                    f"{path} line {place} is not an image with its objects: {error!r}"
                ) from error
    return tags
