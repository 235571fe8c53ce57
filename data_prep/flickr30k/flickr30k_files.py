"""Captions of Flickr30k with a split: Karpathy's, or that of Flickr30k Entities."""

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any

from data_prep.coco_captions.coco_files import read_coco_json
from data_prep.errors import UnexpectedFilesError
from data_prep.reading.json_values import text, whole_number
from data_prep.reading.text_files import read_csv

KARPATHY_SPLITS = {"train": "train", "val": "validation", "test": "test"}
KARPATHY = "dataset_flickr30k.json"
TOKENS = "results_20130124.token"


@dataclasses.dataclass(frozen=True)
class Photograph:
    """An image with its captions.

    Attributes:
      name: of its file, `1000092795.jpg`.
      image_id: see the readers.
      captions: caption id and text.
    """

    name: str
    image_id: int
    captions: tuple[tuple[int, str], ...]


def read_karpathy(folder: pathlib.Path) -> tuple[dict[str, list[Photograph]], str]:
    """Reads `dataset_flickr30k.json`, which may lie in `caption_datasets.zip`.

    Ids are its `imgid` and `sentid`.

    Returns:
      Split -> its images, and where the file was found.

    Raises:
      FileNotFoundError: there is no such file.
      UnexpectedFilesError: it is damaged, or no such file.
    """
    splits: dict[str, list[Photograph]] = {split: [] for split in KARPATHY_SPLITS.values()}
    data, source = read_coco_json(folder, KARPATHY)
    images = data.get("images") if isinstance(data, dict) else None
    if not isinstance(images, list):
        raise UnexpectedFilesError(f"{source} has no list of images")
    for number, image in enumerate(images):
        try:
            splits[KARPATHY_SPLITS[image["split"]]].append(_photograph(image))
        except (KeyError, TypeError, ValueError) as error:
            raise UnexpectedFilesError(
                f"{source}: image {number} is not as Karpathy wrote it ({error!r}); fetch it again"
            ) from error
    return splits, source


def read_entities(folder: pathlib.Path) -> dict[str, list[Photograph]]:
    """Reads `results_20130124.token` and the lists `train.txt`, `val.txt` and `test.txt`.

    The id of an image is its place among the sorted names of all images in the captions, and the id
    of its k-th caption is 5 x image id + k.

    Returns:
      Split -> its images.

    Raises:
      FileNotFoundError: a file is missing.
      UnexpectedFilesError: a file is damaged, or they do not belong together.
    """
    texts: dict[str, dict[int, str]] = {}
    for where, row in read_csv(
        folder / TOKENS, columns=("key", "caption"), delimiter="\t", header=False, quotes=False
    ):
        name, _, number = row["key"].rpartition("#")
        if not name or number not in set("01234") or int(number) in texts.get(name, {}):
            raise UnexpectedFilesError(f"{where}: {row['key']!r} is not a new name.jpg#0 to #4")
        texts.setdefault(name, {})[int(number)] = row["caption"]
    ids = {name: number for number, name in enumerate(sorted(texts))}
    splits = {}
    for name, split in KARPATHY_SPLITS.items():
        names = _read_names(folder / f"{name}.txt")
        if unknown := [image for image in names if len(texts.get(image, ())) != 5]:
            raise UnexpectedFilesError(
                f"{folder / name}.txt names {unknown[0]}, which has not five captions in {TOKENS} "
                f"({len(unknown)} such images)"
            )
        splits[split] = [
            Photograph(
                image,
                ids[image],
                tuple((5 * ids[image] + k, texts[image][k]) for k in range(5)),
            )
            for image in names
        ]
    return splits


def count(splits: Mapping[str, list[Photograph]]) -> dict[str, int]:
    """Images of every split, and captions of all."""
    captions = sum(len(image.captions) for images in splits.values() for image in images)
    return {split: len(images) for split, images in splits.items()} | {"captions": captions}


def _photograph(image: Mapping[str, Any]) -> Photograph:
    sentences = tuple((whole_number(s["sentid"]), text(s["raw"])) for s in image["sentences"])
    return Photograph(text(image["filename"]), whole_number(image["imgid"]), sentences)


def _read_names(path: pathlib.Path) -> list[str]:
    """Names of a list of Flickr30k Entities, which leaves out their ending."""
    names = [row["name"] for _, row in read_csv(path, columns=("name",), header=False)]
    return [name if name.endswith(".jpg") else f"{name}.jpg" for name in map(str.strip, names)]
