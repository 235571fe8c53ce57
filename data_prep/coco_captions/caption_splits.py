"""Readers of every caption of COCO with a split of the images: Karpathy's, or im2txt's."""

import pathlib
from typing import Any

import numpy as np

from data_prep.coco_captions.coco_files import has_json, read_coco_json, wrong_form
from data_prep.errors import UnexpectedFilesError
from data_prep.reading.json_values import text, whole_number

KARPATHY = "dataset_coco.json"
# im2txt cuts val2014 here, in percent of its images and in the order of the annotation file.
_TRAIN_UNTIL, _VALIDATION_UNTIL = 85, 90

# Lists of caption ids that define Karpathy's split, as VSE++, PVSE and PCME hand them out.
ID_LISTS = {
    "train": "coco_train_ids.npy",
    "restval": "coco_restval_ids.npy",
    "val": "coco_dev_ids.npy",
    "test": "coco_test_ids.npy",
}

Records = list[dict[str, Any]]


def read_karpathy_split(folder: pathlib.Path) -> tuple[dict[str, Records], dict[str, int]]:
    """Reads Karpathy's `dataset_coco.json` from a folder, or from `caption_datasets.zip` in it.

    Where it is missing, lists of caption ids beside the official captions will do.

    Returns:
      Karpathy split -> images with `cocoid`, `filepath`, `filename` and `sentences`, each with
      `raw` and `sentid`; and counts: images of every split, and `captions`.

    Raises:
      FileNotFoundError: there is no such file.
      UnexpectedFilesError: it is damaged or of another form.
    """
    lists = all((folder / name).is_file() for name in ID_LISTS.values())
    if lists and not has_json(folder, KARPATHY):
        return _read_listed_split(folder)
    content, source = read_coco_json(folder, KARPATHY)
    records: dict[str, Records] = {}
    try:
        for image in content["images"]:
            record = _image(image["cocoid"], image["filepath"], image["filename"])
            record["sentences"] = [_sentence(s["raw"], s["sentid"]) for s in image["sentences"]]
            records.setdefault(text(image["split"]), []).append(record)
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        raise wrong_form(source, error) from error
    counts = {split: len(images) for split, images in records.items()}
    return records, counts | {"captions": _count_captions(*records.values())}


def _read_listed_split(folder: pathlib.Path) -> tuple[dict[str, Records], dict[str, int]]:
    """Reads the official captions of 2014 or 2017, and splits them by lists of caption ids.

    The releases of 2014 and 2017 have the same images and captions, cut in other ways. The listed
    captions of an image come first, in the order of the list: a few images have more.
    """
    year = 2014 if has_json(folder, "captions_train2014.json") else 2017
    images = [*_read_official(folder, f"train{year}"), *_read_official(folder, f"val{year}")]
    image_of = {each["sentid"]: image for image in images for each in image["sentences"]}
    records: dict[str, Records] = {}
    split_of: dict[int, str] = {}
    for split, name in ID_LISTS.items():
        order: dict[int, int] = {}
        for number in _read_ids(folder / name):
            if number not in image_of:
                raise UnexpectedFilesError(
                    f"{folder / name} names the caption {number}, which the captions of {year} lack"
                )
            order[number] = len(order)
        listed = {image_of[number]["cocoid"]: image_of[number] for number in order}
        for image_id, image in listed.items():
            if split_of.setdefault(image_id, split) != split:
                both = f"{split_of[image_id]} and {split}"
                raise UnexpectedFilesError(f"{folder}: image {image_id} is in the lists of {both}")
            image["sentences"].sort(key=lambda each: order.get(each["sentid"], len(order)))
        records[split] = list(listed.values())
    counts = {split: len(each) for split, each in records.items()}
    return records, counts | {"captions": _count_captions(*records.values())}


def _read_ids(path: pathlib.Path) -> list[int]:
    try:
        ids = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise UnexpectedFilesError(f"{path} is cut off or no array: {error}") from error
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise UnexpectedFilesError(f"{path} holds {ids.dtype} {list(ids.shape)}, not a list of ids")
    return ids.tolist()


def read_im2txt_split(folder: pathlib.Path) -> tuple[dict[str, Records], dict[str, int]]:
    """Reads the official captions and splits them as im2txt does, on whose split VETE is trained.

    Training has all images of train2014 and the first 85 % of val2014, validation the next 5 %
    and test the last 10 %.

    Args:
      folder: holds `captions_train2014.json` and `captions_val2014.json`, unpacked or in
        `annotations_trainval2014.zip`.

    Returns:
      Split -> images in the form of Karpathy's file, with captions in the order of the annotation
      file; and counts: images of `train2014` and `val2014`, and `captions`.

    Raises:
      FileNotFoundError: a file is missing.
      UnexpectedFilesError: a file is damaged or of another form.
    """
    train, val = (_read_official(folder, part) for part in ("train2014", "val2014"))
    first, second = (len(val) * percent // 100 for percent in (_TRAIN_UNTIL, _VALIDATION_UNTIL))
    counts = {"train2014": len(train), "val2014": len(val)}
    splits = {"train": train + val[:first], "validation": val[first:second], "test": val[second:]}
    return splits, counts | {"captions": _count_captions(train, val)}


def _read_official(folder: pathlib.Path, part: str) -> Records:
    content, source = read_coco_json(folder, f"captions_{part}.json")
    try:
        images = {
            whole_number(image["id"]): _image(image["id"], part, image["file_name"])
            for image in content["images"]
        }
        for annotation in content["annotations"]:
            sentence = _sentence(annotation["caption"], annotation["id"])
            images[annotation["image_id"]]["sentences"].append(sentence)
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        raise wrong_form(source, error) from error
    return list(images.values())


def _image(number: Any, part: Any, name: Any) -> dict[str, Any]:
    return {
        "cocoid": whole_number(number),
        "filepath": text(part),
        "filename": text(name),
        "sentences": [],
    }


def _sentence(raw: Any, number: Any) -> dict[str, Any]:
    return {"raw": text(raw), "sentid": whole_number(number)}


def _count_captions(*groups: Records) -> int:
    return sum(len(image["sentences"]) for images in groups for image in images)
