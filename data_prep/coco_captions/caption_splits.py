"""Readers for COCO's captions and im2txt's split of the images."""

import pathlib

from data_prep.reading import published_files

# im2txt cuts val2014 here, in percent of its images and in the order of the annotation file.
_TRAIN_UNTIL, _VALIDATION_UNTIL = 85, 90


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
    first, second = (len(val) * percent // 100 for percent in (_TRAIN_UNTIL, _VALIDATION_UNTIL))
    splits = {"train": train + val[:first], "validation": val[first:second], "test": val[second:]}
    return splits, published_files.count(parts)


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
