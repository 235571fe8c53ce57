"""Readers for COCO's captions and a split of the images: Karpathy's or im2txt's."""

import dataclasses
import pathlib

from data_prep.reading import published_files
from xmodal.core.errors import UnexpectedFilesError

# im2txt cuts val2014 here, in percent of its images and in the order of the annotation file.
_TRAIN_UNTIL, _VALIDATION_UNTIL = 85, 90

# Lists of caption ids that define Karpathy's split, as distributed with VSE++, PVSE and PCME.
ID_LISTS = {
    "train": "coco_train_ids.npy",
    "restval": "coco_restval_ids.npy",
    "val": "coco_dev_ids.npy",
    "test": "coco_test_ids.npy",
}


def read_karpathy_split(folder: pathlib.Path) -> published_files.Photographs:
    """Reads Karpathy's `dataset_coco.json`, or the official captions and id lists that split them.

    Returns:
      Karpathy split -> its images.

    Raises:
      FileNotFoundError: there is no such file.
      UnexpectedFilesError: it is damaged or in another format.
    """
    lists = all((folder / name).is_file() for name in ID_LISTS.values())
    if lists and not published_files.has_json(folder, "dataset_coco.json"):
        return _read_listed_split(folder)
    return published_files.read_karpathy(folder, "coco")


def _read_listed_split(folder: pathlib.Path) -> published_files.Photographs:
    """Reads the official captions of 2014 or 2017, and splits them by lists of caption ids.

    The releases of 2014 and 2017 have the same images and captions, split differently. The listed
    captions of an image come first, in the order of the list; a few images have more.
    """
    year = 2014 if published_files.has_json(folder, "captions_train2014.json") else 2017
    images = [*_read_official(folder, f"train{year}"), *_read_official(folder, f"val{year}")]
    image_of = {number: image for image in images for number, _ in image.captions}
    splits: dict[str, list[published_files.Photograph]] = {}
    for split, name in ID_LISTS.items():
        order = {
            number: place for place, number in enumerate(published_files.read_ids(folder / name))
        }
        if unknown := order.keys() - image_of.keys():
            raise UnexpectedFilesError(
                f"{folder / name} lists caption {min(unknown)}, which the captions of {year} lack"
            )
        splits[split] = [
            dataclasses.replace(
                image,
                captions=tuple(sorted(image.captions, key=lambda e: order.get(e[0], len(order)))),
            )
            for image in {image_of[number].image_id: image_of[number] for number in order}.values()
        ]
    listed = [image.image_id for images in splits.values() for image in images]
    if len(set(listed)) < len(listed):
        raise UnexpectedFilesError(f"{folder}: an image is listed in two of {[*ID_LISTS.values()]}")
    return splits


def read_im2txt_split(folder: pathlib.Path) -> tuple[published_files.Photographs, dict[str, int]]:
    """Reads the official captions in the split of im2txt, which VETE uses.

    Training has all images of train2014 and the first 85 % of val2014, validation the next 5 %
    and test the last 10 %.

    Args:
      folder: contains `captions_train2014.json` and `captions_val2014.json`, unpacked or in
        `annotations_trainval2014.zip`.

    Returns:
      Split -> images, with captions in the order of the annotation file; and counts: images of
      `train2014` and `val2014`, and `captions`.

    Raises:
      FileNotFoundError: a file is missing.
      UnexpectedFilesError: a file is damaged or in another format.
    """
    parts = {part: _read_official(folder, part) for part in ("train2014", "val2014")}
    train, val = parts.values()
    first, second = im2txt_cuts(len(val))
    splits = {"train": train + val[:first], "validation": val[first:second], "test": val[second:]}
    return splits, published_files.count(parts)


def im2txt_cuts(images: int) -> tuple[int, int]:
    """Returns where validation and where test begin in the images of val2014."""
    return images * _TRAIN_UNTIL // 100, images * _VALIDATION_UNTIL // 100


def _read_official(folder: pathlib.Path, part: str) -> list[published_files.Photograph]:
    content, source = published_files.read_published_json(folder, f"captions_{part}.json")
    try:
        names = {int(each["id"]): str(each["file_name"]) for each in content["images"]}
        captions: dict[int, list[tuple[int, str]]] = {image_id: [] for image_id in names}
        for each in content["annotations"]:
            caption = int(each["id"]), str(each["caption"])
            captions[each["image_id"]].append(caption)
    except published_files.WRONG_FORM as error:
        raise published_files.wrong_form(source, error) from error
    return [
        published_files.Photograph(names[number], number, tuple(found))
        for number, found in captions.items()
    ]
