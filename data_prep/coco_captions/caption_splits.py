"""Readers of every caption of COCO with a split of the images: Karpathy's, or im2txt's."""

import pathlib
from typing import Any

from data_prep.coco_captions.coco_files import read_coco_json, wrong_form
from data_prep.reading.json_values import text, whole_number

KARPATHY = "dataset_coco.json"
# im2txt cuts val2014 here, in percent of its images and in the order of the annotation file.
_TRAIN_UNTIL, _VALIDATION_UNTIL = 85, 90

Records = list[dict[str, Any]]


def read_karpathy_split(folder: pathlib.Path) -> tuple[dict[str, Records], dict[str, int]]:
    """Reads Karpathy's `dataset_coco.json` from a folder, or from `caption_datasets.zip` in it.

    Returns:
      Karpathy split -> images with `cocoid`, `filepath`, `filename` and `sentences`, each with
      `raw` and `sentid`; and counts: images of every split, and `captions`.

    Raises:
      FileNotFoundError: there is no such file.
      UnexpectedFilesError: it is damaged or of another form.
    """
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
