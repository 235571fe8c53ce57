"""The split of the im2txt model, on which VETE is trained: train2014 and most of val2014."""

import pathlib
from typing import Any

from data_prep.coco_captions.coco_files import read_coco_json, wrong_form
from data_prep.reading.json_values import text, whole_number

# Where val2014 is cut, in percent of its images and in the order of the annotation file.
_TRAIN_UNTIL, _VALIDATION_UNTIL = 85, 90

Records = list[dict[str, Any]]


def read_im2txt_split(folder: pathlib.Path) -> tuple[dict[str, Records], dict[str, int]]:
    """Reads the official captions and splits them as im2txt does.

    Training has all images of train2014 and the first 85 % of val2014, validation the next 5 %
    and test the last 10 %.

    Args:
      folder: holds `captions_train2014.json` and `captions_val2014.json`, unpacked or in
        `annotations_trainval2014.zip`.

    Returns:
      Split -> images in the form of Karpathy's file, with captions in the order of the annotation
      file; and what was counted: images of `train2014` and `val2014`, and `captions`.

    Raises:
      FileNotFoundError: a file is missing.
      UnexpectedFilesError: a file is damaged or of another form.
    """
    train, val = (_read_captions(folder, part) for part in ("train2014", "val2014"))
    first, second = (len(val) * percent // 100 for percent in (_TRAIN_UNTIL, _VALIDATION_UNTIL))
    found = {"train2014": len(train), "val2014": len(val)}
    found["captions"] = sum(len(image["sentences"]) for image in (*train, *val))
    splits = {"train": train + val[:first], "validation": val[first:second], "test": val[second:]}
    return splits, found


def _read_captions(folder: pathlib.Path, part: str) -> Records:
    content, source = read_coco_json(folder, f"captions_{part}.json")
    try:
        images = {
            whole_number(image["id"]): {
                "cocoid": whole_number(image["id"]),
                "filepath": part,
                "filename": text(image["file_name"]),
                "sentences": [],
            }
            for image in content["images"]
        }
        for annotation in content["annotations"]:
            number = whole_number(annotation["id"])
            sentence = {"raw": text(annotation["caption"]), "sentid": number}
            images[annotation["image_id"]]["sentences"].append(sentence)
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        raise wrong_form(source, error) from error
    return list(images.values())
