"""Photographs with their captions: Karpathy's files of COCO, Flickr8k and Flickr30k."""

import dataclasses
import itertools
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from data_prep.reading.published_json import WRONG_FORM, read_published_json, wrong_form
from data_prep.reading.split_names import SYNONYMS, check_split_names
from data_prep.reading.text_files import read_json
from xmodal.core.untrusted.names import name_key


@dataclasses.dataclass(frozen=True)
class Photograph:
    """An image with its captions.

    Attributes:
      name: name of its file, such as `1000092795.jpg`.
      image_id: see the readers.
      captions: id and text of every caption.
      folder: the folder of the file, such as `val2014`; "" if it is not given.
    """

    name: str
    image_id: int
    captions: tuple[tuple[int, str], ...]
    folder: str = ""


Photographs = Mapping[str, Sequence[Photograph]]
"""By split."""


def file_name(dataset: str) -> str:
    """Name of Karpathy's file of `coco`, `flickr8k` or `flickr30k`."""
    return f"dataset_{dataset}.json"


def read_karpathy(folder: pathlib.Path, dataset: str) -> Photographs:
    """Reads Karpathy's file from a folder, or from `caption_datasets.zip` in it.

    Args:
      folder: folder of the manually downloaded files.
      dataset: `coco`, `flickr8k` or `flickr30k`.

    Returns:
      Karpathy's splits, see `in_splits`. Ids are `sentid` and `imgid`, or `cocoid` for COCO images.

    Raises:
      FileNotFoundError: there is no such file.
      UnexpectedFilesError: it is damaged or in another format.
    """
    content, source = read_published_json(folder, file_name(dataset))
    return _photographs(content, source, "cocoid" if dataset == "coco" else "imgid")


def read_karpathy_file(path: pathlib.Path, *, has_ids: bool = True) -> Photographs:
    """Reads a file in the same format, of any name.

    Args:
      path: path of the file.
      has_ids: whether its ids are those of the images and captions, which otherwise are counted in
        the order of the file, from 0.

    Raises:
      FileNotFoundError: there is no such file.
      UnexpectedFilesError: it is damaged or in another format.
    """
    id_name = ("cocoid" if path.name == file_name("coco") else "imgid") if has_ids else ""
    return _photographs(read_json(path), str(path), id_name)


def _photographs(content: Any, source: str, id_name: str) -> Photographs:
    images = content.get("images") if isinstance(content, dict) else None
    if not isinstance(images, list):
        raise wrong_form(source, TypeError("no list of images"))
    splits: dict[str, list[Photograph]] = {}
    counted = itertools.count()
    for number, image in enumerate(images):
        try:
            captions = tuple(
                (int(each["sentid"]) if id_name else next(counted), str(each["raw"]))
                for each in image["sentences"]
            )
            photograph = Photograph(
                str(image["filename"]),
                int(image[id_name]) if id_name else number,
                captions,
                str(image.get("filepath") or ""),
            )
            splits.setdefault(str(image.get("split", "")), []).append(photograph)
        except WRONG_FORM as error:
            raise wrong_form(f"{source}: image {number}", error) from error
    return splits


def in_splits(karpathy: Photographs, place: str = "Karpathy's file") -> dict[str, list[Photograph]]:
    """Karpathy's splits as those of a dataset: train and restval, val, test.

    Args:
      karpathy: see `read_karpathy`.
      place: names the file in messages.

    Raises:
      UnexpectedFilesError: a split has an unknown name, or none.
    """
    sizes = {name or "none": len(photographs) for name, photographs in karpathy.items()}
    check_split_names(sizes, place)
    return {
        split: [
            photograph
            for word in words
            for name, photographs in karpathy.items()
            if name_key(name) == word
            for photograph in photographs
        ]
        for split, words in SYNONYMS.items()
    }


def count(photographs: Photographs) -> dict[str, int]:
    """Number of images in every split, and of `captions` overall."""
    counts = {split: len(images) for split, images in photographs.items()}
    captions = sum(len(image.captions) for images in photographs.values() for image in images)
    return counts | {"captions": captions}
