"""Reader for plain caption files: any part of the COCO captions, without the images.

The format is described in README.md beside this file.
"""

import itertools
import pathlib
from collections.abc import Iterator

from data_prep.reading.csv_files import read_csv
from data_prep.reading.published_files import WRONG_FORM, Photograph, Photographs
from data_prep.reading.text_files import read_jsonl
from xmodal.core.errors import UnexpectedFilesError

COLUMNS = ("caption_id", "image_id", "karpathy_split", "caption")
SPLITS = ("train", "restval", "val", "test")
# COCO's own ids are below a million; these stay int32.
FIRST_NEW_ID = 2**30


def has_plain_captions(folder: pathlib.Path) -> bool:
    """Whether a folder has caption files with ids."""
    return any(_find(folder, ending) for ending in ("csv", "jsonl"))


def read_plain_captions(folder: pathlib.Path) -> Photographs:
    """Reads all captions.

    Images in the JSON lines that are also in the tables are skipped, since their captions would
    appear twice.

    Returns:
      Karpathy split -> its images.

    Raises:
      UnexpectedFilesError: a column or field is missing, an id appears twice, a split is unknown or
        an image is in two, or an image has two JSON lines.
    """
    captions: dict[int, list[tuple[int, str]]] = {}
    splits: dict[int, str] = {}
    for where, image_id, split, texts in _rows(folder):
        if split not in SPLITS or splits.setdefault(image_id, split) != split:
            known = f"known: {', '.join(SPLITS)}"
            raise UnexpectedFilesError(
                f"{where}: image {image_id} is in {split!r} and {splits.get(image_id)!r}; {known}"
            )
        captions.setdefault(image_id, []).extend(texts)
    photographs: dict[str, list[Photograph]] = {split: [] for split in SPLITS}
    for image_id, texts in captions.items():
        photograph = Photograph(f"image {image_id}", image_id, tuple(texts))
        photographs[splits[image_id]].append(photograph)
    return photographs


def _rows(folder: pathlib.Path) -> Iterator[tuple[str, int, str, list[tuple[int, str]]]]:
    """Yields place, image, split, and ids and texts of captions: the tables, then other images."""
    images: set[int] = set()
    where = ""
    try:
        for path in _find(folder, "csv"):
            for place, row in read_csv(path, columns=COLUMNS):
                where = f"{path.parent / place}"
                caption_id, image_id = int(row["caption_id"]), int(row["image_id"])
                images.add(image_id)
                split = row["karpathy_split"]
                # Retrieval uses five captions per image; some COCO images have a sixth and seventh.
                is_kept = split in SPLITS[:2] or row.get("in_karpathy5") != "0"
                yield where, image_id, split, [(caption_id, row["caption"])] * is_kept
        new_ids = itertools.count(FIRST_NEW_ID)
        for path in _find(folder, "jsonl"):
            for place, line in read_jsonl(path):
                where = f"{path.parent / place}"
                image_id, split = int(line["image_id"]), str(line["karpathy_split"])
                if image_id not in images:
                    texts = [(next(new_ids), caption) for caption in line["captions"]]
                    yield where, image_id, split, texts
    except WRONG_FORM as error:
        raise UnexpectedFilesError(f"{where}: {type(error).__name__} {error}") from error


def _find(folder: pathlib.Path, ending: str) -> list[pathlib.Path]:
    return sorted([*folder.glob(f"captions*.{ending}"), *folder.glob(f"captions*.{ending}.gz")])
