"""Reader of Karpathy's `dataset_coco.json`: every caption of COCO, and the split of its images."""

import pathlib
from typing import Any

from data_prep.coco_captions.coco_files import read_coco_json, wrong_form
from data_prep.reading.json_values import text, whole_number

SOURCE = "dataset_coco.json"

Records = list[dict[str, Any]]


def read_karpathy_split(folder: pathlib.Path) -> tuple[dict[str, Records], dict[str, int]]:
    """Reads the file from a folder, or from `caption_datasets.zip` in it.

    Returns:
      Karpathy split -> images with `cocoid`, `filepath`, `filename` and `sentences`, each with
      `raw` and `sentid`; and what was counted: images of every split, and `captions`.

    Raises:
      FileNotFoundError: it is not there.
      UnexpectedFilesError: it is damaged or of another form.
    """
    content, source = read_coco_json(folder, SOURCE)
    records: dict[str, Records] = {}
    try:
        for image in content["images"]:
            record = {
                "cocoid": whole_number(image["cocoid"]),
                "filepath": text(image["filepath"]),
                "filename": text(image["filename"]),
                "sentences": [
                    {"raw": text(sentence["raw"]), "sentid": whole_number(sentence["sentid"])}
                    for sentence in image["sentences"]
                ],
            }
            records.setdefault(text(image["split"]), []).append(record)
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        raise wrong_form(source, error) from error
    found = {split: len(images) for split, images in records.items()}
    found["captions"] = sum(
        len(image["sentences"]) for images in records.values() for image in images
    )
    return records, found
