"""Finds, reads and counts the released label files; `cxc_files` reads the ratings."""

import filecmp
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from data_prep.cxc import cxc_files
from xmodal.core.errors import UserError
from xmodal.core.folders import walk
from xmodal.core.untrusted.json_text import parse_json_text
from xmodal.core.untrusted.saved_arrays import DAMAGE, load_arrays
from xmodal.evals.scores.arrays import first_line

_ECCV = "https://github.com/naver-ai/eccv-caption/tree/main/eccv_caption/data"
_PCME = "https://github.com/naver-ai/pcme/tree/main/datasets/annotations"
_COCO = "https://cocodataset.org/#download"

_OSCAR = "https://github.com/microsoft/Oscar/blob/master/VinVL_DOWNLOAD.md (coco_ir)"

OWN = "original_caption_to_image.json"
# Split -> caption ids in the order of Karpathy's split; from ECCV Caption and from PCME.
ORDERS = {"test": "coco_test_ids.npy", "validation": "coco_dev_ids.npy"}
# The table has the same content as COCO's file, one row per image.
CATEGORIES = ("val2014_categories.npz", "instances_val2014.json")
# Ids of test images, one per line, which Oscar and VinVL are evaluated on.
SHORTLIST = "test_img_keys_1k.tsv"
# Released lists of the test split -> direction -> file.
LISTS = {
    name: {"i2t": f"{name}_image_to_caption.json", "t2i": f"{name}_caption_to_image.json"}
    for name in ("eccv", "cxc")
}
# Split -> images with an object; the other few of its 5,000 have none.
_LABELED_IMAGES = {"test": 4_952, "validation": 4_948}

# File -> counted quantity -> its released number; `cxc_files` has those of ratings.
_COUNTS: dict[str, dict[str, int]] = {
    **{name: {"captions": 25_000} for name in ORDERS.values()},
    OWN: {"queries": 25_000, "positives": 25_000},
    SHORTLIST: {"images": 1_000},
    "eccv_caption_to_image.json": {"queries": 1_332, "positives": 11_279},
    "eccv_image_to_caption.json": {"queries": 1_261, "positives": 22_550},
    "cxc_caption_to_image.json": {"queries": 24_972, "positives": 35_585},
    "cxc_image_to_caption.json": {"queries": 5_000, "positives": 35_585},
}


def names_of(split: str) -> list[str]:
    """All files with information about a split."""
    names = [cxc_files.file_name(rating, split) for rating in cxc_files.RATINGS]
    names += [ORDERS[split], *CATEGORIES]
    if split == "test":
        names += [
            OWN,
            SHORTLIST,
            *(name for directions in LISTS.values() for name in directions.values()),
        ]
    return sorted(names)


def url_of(path: Path) -> str:
    """Where a file was released."""
    if path.suffix == ".csv":
        return cxc_files.HOME
    if path.name in CATEGORIES:
        return _COCO
    if path.name == SHORTLIST:
        return _OSCAR
    return _PCME if path.name == ORDERS["validation"] else _ECCV


class ReleasedFiles:
    """The released files of a split in a folder and its subfolders.

    `differences` lists how the counted files differ from the released ones.
    """

    def __init__(self, folder: str | os.PathLike, split: str) -> None:
        """Looks for the files.

        Raises:
          UserError: the folder or all of its files are missing, or two files of one name differ.
        """
        self.folder, self._split = Path(folder), split
        self.differences: list[str] = []
        if not self.folder.is_dir():
            raise UserError(f"The annotations folder {self.folder} does not exist.")
        names = names_of(split)
        self._paths: dict[str, Path] = {}
        for path in (parent / name for parent, files in walk(self.folder) for name in files):
            if path.name in names:
                first = self._paths.setdefault(path.name, path)
                if first != path and not filecmp.cmp(first, path, shallow=False):
                    raise UserError(f"{first} and {path} differ: keep the right one.")
        if not self._paths:
            raise UserError(
                f"{self.folder} and its subfolders have no annotations; looked for "
                f"{', '.join(names)}."
            )

    def get(self, name: str) -> Path | None:
        """The path of the file, or None."""
        return self._paths.get(name)

    def count(self, path: Path, **found: int) -> None:
        """Notes how the counts of a file differ from the released ones.

        `found` maps quantities to numbers: `captions` of an order, `queries` and `positives` of
        lists, `categories` and `images` that have one. For example, "coco_test_ids.npy holds 6
        captions instead of 25,000".
        """
        released = {"categories": 80, "images": _LABELED_IMAGES[self._split]}
        wrong = [
            f"{found[quantity]:,} {quantity} instead of {number:,}"
            for quantity, number in (_COUNTS.get(path.name) or released).items()
            if found[quantity] != number
        ]
        if wrong:
            self.differences.append(f"{path.name} holds {' and '.join(wrong)}")


def read_ids(path: Path) -> np.ndarray:
    """Returns the ids of an npy file, int64 [M], all different.

    Raises:
      UserError: the file is damaged or holds something else.
    """
    try:
        with path.open("rb") as file:
            ids = np.lib.format.read_array(file, allow_pickle=False)
    except DAMAGE as error:
        raise _damaged(path, f"cannot be read as npy ({first_line(error)})") from error
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise _damaged(path, f"is not a list of integer ids: {ids.dtype} {list(ids.shape)}")
    if len(np.unique(ids)) < len(ids):
        raise _damaged(path, "lists an id twice")
    return ids.astype(np.int64)


def read_shortlist(path: Path, image_ids: np.ndarray) -> np.ndarray:
    """Returns whether an image is on the list, bool [N].

    Args:
      path: a text with one id per line.
      image_ids: int [N].

    Raises:
      UserError: a line is not an id, or not one of `image_ids`.
    """
    try:
        listed = [int(line) for line in path.read_text(encoding="utf-8").split()]
    except ValueError as error:
        raise _damaged(path, f"has not one image id per line ({first_line(error)})") from error
    if absent := sorted(set(listed) - set(image_ids.tolist())):
        raise _damaged(path, f"lists the image {absent[0]}, which is not in the test split")
    return np.isin(image_ids, listed)


def read_lists(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Returns query ids and gallery ids, int64 [P] each, from a JSON object of id lists.

    Raises:
      UserError: the file is damaged or holds something else.
    """
    content = _read_json(path)
    try:
        pairs = [(int(key), _whole(item, key)) for key, items in content.items() for item in items]
        queries, items = np.array(pairs, np.int64).reshape(-1, 2).T
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        raise _damaged(path, f"is not an object of id lists ({first_line(error)})") from error
    return queries, items


def read_categories(path: Path, image_ids: np.ndarray) -> np.ndarray:
    """Returns the categories of every image, uint8 0/1 [N, C], in the order of the category ids.

    Args:
      path: COCO's `instances_*.json`, or an npz of `image_ids` [K] and `labels` 0/1 [K, C].
      image_ids: int [N]; an image that is not in the file has no category.

    Raises:
      UserError: the file is damaged, or has a category of none of the images.
    """
    read = _read_category_table if path.suffix == ".npz" else _read_instances
    ids, image, category, width = read(path)
    at = {int(image_id): row for row, image_id in enumerate(image_ids)}
    rows = np.array([at.get(int(image_id), -1) for image_id in ids], np.int64)
    result = np.zeros((len(image_ids), width), np.uint8)
    row = rows[image]
    result[row[row >= 0], category[row >= 0]] = 1
    if not result.any():
        raise _damaged(path, "names no image of this split: it is not the file of val2014")
    return result


def _read_category_table(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Image ids [K]; (row, column) of every category that occurs, [P] each; columns."""
    try:
        if not zipfile.is_zipfile(path):
            raise zipfile.BadZipFile("not an npz file, or truncated")
        with load_arrays(path) as table:
            ids, labels = table["image_ids"], table["labels"]
    except DAMAGE as error:
        reason = f"lacks image_ids and labels that can be read ({first_line(error)})"
        raise _damaged(path, reason) from error
    if ids.dtype.kind not in "iu" or labels.ndim != 2 or ids.shape != labels.shape[:1]:
        shapes = f"image_ids {list(ids.shape)} and labels {list(labels.shape)}"
        raise _damaged(path, f"has {shapes}, not [K] and [K, C]")
    return ids, *np.nonzero(labels), labels.shape[1]


def _read_instances(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Like `_read_category_table`; crowds count like single objects."""

    def shrink(section: dict) -> Any:
        # Object outlines make up most of the file, so they are dropped as soon as they are read.
        if "category_id" in section:
            return section.get("image_id"), section["category_id"]
        return section

    content = _read_json(path, shrink)
    try:
        pairs = np.array(sorted(set(content["annotations"])), np.int64).reshape(-1, 2)
        categories = np.array(sorted(each["id"] for each in content["categories"]), np.int64)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        wanted = "'annotations' of an 'image_id' and a 'category_id' each, and 'categories'"
        reason = f"is not a file of COCO instances: it lacks readable {wanted}"
        raise _damaged(path, reason) from error
    ids, image = np.unique(pairs[:, 0], return_inverse=True)
    column = np.searchsorted(categories, pairs[:, 1])
    if not np.isin(pairs[:, 1], categories).all():
        raise _damaged(path, "has annotations of categories that it does not list")
    return ids, image, column, len(categories)


def _read_json(path: Path, object_hook: Any = None) -> Any:
    try:
        return parse_json_text(path.read_text(encoding="utf-8-sig"), object_hook=object_hook)
    except (OSError, ValueError) as error:
        raise _damaged(path, f"cannot be read as JSON ({first_line(error)})") from error


def _damaged(path: Path, problem: str) -> UserError:
    return UserError(f"{path} {problem}; get the released file again from {url_of(path)}")


def _whole(item: Any, query: str) -> int:
    if isinstance(item, bool) or not isinstance(item, int):
        raise ValueError(f"{item!r} in the list of {query} is not an id")
    return item
