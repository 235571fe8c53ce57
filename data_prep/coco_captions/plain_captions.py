"""Reader of plain caption files: COCO captions as far as they are at hand, without the images.

The form is described in README.md beside this file.
"""

import itertools
import pathlib
from typing import Any

from data_prep.errors import UnexpectedFilesError
from data_prep.reading.json_values import text, whole_number
from data_prep.reading.text_files import read_csv, read_jsonl

COLUMNS = ("caption_id", "image_id", "karpathy_split", "caption")
SPLITS = ("train", "restval", "val", "test")
# COCO's own ids are below a million; these stay int32.
FIRST_NEW_ID = 2**30


def has_plain_captions(folder: pathlib.Path) -> bool:
    """Whether a folder has files of captions with ids."""
    return bool(_find(folder, "csv"))


def read_plain_captions(folder: pathlib.Path) -> dict[str, list[dict[str, Any]]]:
    """Reads all captions, in the form of Karpathy's file.

    Images of the JSON lines that the tables have too are left out: their captions would come twice.

    Returns:
      Karpathy split -> images with `cocoid` and `sentences` (`raw` and `sentid`).

    Raises:
      UnexpectedFilesError: a column or field is missing, an id comes twice, a split is unknown or
        an image is in two.
    """
    images: dict[int, dict[str, Any]] = {}
    seen: set[int] = set()
    for path in _find(folder, "csv"):
        for place, row in read_csv(path, columns=COLUMNS):
            where = path.parent / place
            try:
                caption_id, image_id = int(row["caption_id"]), int(row["image_id"])
            except ValueError as error:
                raise UnexpectedFilesError(f"{where}: {error}") from error
            if caption_id in seen:
                raise UnexpectedFilesError(f"{where}: caption id {caption_id} comes twice")
            seen.add(caption_id)
            image = _image(images, image_id, row["karpathy_split"], where)
            # Retrieval knows five captions per image; COCO has a sixth and seventh of some.
            if image["split"] in SPLITS[:2] or row.get("in_karpathy5") != "0":
                image["sentences"].append({"raw": row["caption"], "sentid": caption_id})
    with_ids, new_ids = set(images), itertools.count(FIRST_NEW_ID)
    for path in _find(folder, "jsonl"):
        for place, line in read_jsonl(path):
            where = path.parent / place
            try:
                image_id, split = whole_number(line["image_id"]), text(line["karpathy_split"])
                captions = line["captions"]
                if not isinstance(captions, list):
                    raise TypeError(f"captions {captions!r:.40}")
                captions = [text(caption) for caption in captions]
            except (KeyError, OverflowError, TypeError, ValueError) as error:
                raise UnexpectedFilesError(
                    f"{where}: {type(error).__name__} {error}, where image_id, karpathy_split and "
                    "a list of captions are needed"
                ) from error
            if image_id not in with_ids:
                image = _image(images, image_id, split, where)
                image["sentences"] += [{"raw": raw, "sentid": next(new_ids)} for raw in captions]
    records: dict[str, list[dict[str, Any]]] = {split: [] for split in SPLITS}
    for image in images.values():
        records[image["split"]].append(image)
    return records


def _image(
    images: dict[int, dict[str, Any]], image_id: int, split: str, where: pathlib.Path
) -> dict[str, Any]:
    if split not in SPLITS:
        raise UnexpectedFilesError(f"{where}: split {split!r}; known: {', '.join(SPLITS)}")
    image = images.setdefault(image_id, {"cocoid": image_id, "split": split, "sentences": []})
    if image["split"] != split:
        raise UnexpectedFilesError(f"{where}: image {image_id} is in {split} and {image['split']}")
    return image


def _find(folder: pathlib.Path, ending: str) -> list[pathlib.Path]:
    return sorted([*folder.glob(f"captions*.{ending}"), *folder.glob(f"captions*.{ending}.gz")])
