"""Finds and reads released label files other than the ratings of Crisscrossed Captions."""

import filecmp
import json
import os
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from xmodal.options import UserError


class ReleasedFiles:
    """Files of known names in a folder or anywhere below it.

    Attributes:
      folder: where they were looked for.
    """

    def __init__(self, folder: str | Path, known: Iterable[str]) -> None:
        """Looks for the files.

        Raises:
          UserError: the folder is not there, none of the files is, or one is there twice with
            different content.
        """
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise UserError(f"The annotations folder {self.folder} does not exist.")
        names = sorted(known)
        self._paths: dict[str, Path] = {}
        for where, folders, files in os.walk(self.folder):
            folders.sort()
            for name in set(files).intersection(names):
                path = Path(where, name)
                first = self._paths.setdefault(name, path)
                if first != path and not filecmp.cmp(first, path, shallow=False):
                    raise UserError(f"{first} and {path} differ: keep the one that is meant.")
        if not self._paths:
            raise UserError(
                f"{self.folder} and the folders below have no annotations; looked for "
                f"{', '.join(names)}."
            )

    def get(self, name: str) -> Path | None:
        """Where the file is, or None."""
        return self._paths.get(name)


def read_ids(path: Path) -> np.ndarray:
    """Ids from an npy file.

    Returns:
      int64 [M], all different.
    """
    try:
        ids = np.load(path)
    except (OSError, EOFError, ValueError) as error:
        raise UserError(f"{path} cannot be read as npy: {error}") from error
    if not isinstance(ids, np.ndarray) or ids.ndim != 1 or ids.dtype.kind not in "iu":
        found = f"{ids.dtype} {ids.shape}" if isinstance(ids, np.ndarray) else "an archive"
        raise UserError(f"{path} holds {found}, not a list of integer ids: take the released file.")
    if len(np.unique(ids)) < len(ids):
        raise UserError(f"{path} lists an id twice: take the released file.")
    return ids.astype(np.int64)


def read_lists(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Positives from a JSON object, query id -> list of gallery ids.

    Returns:
      Query ids and gallery ids, int64 [P] each.
    """
    content = _read_json(path)
    try:
        lists = {int(query): list(map(_whole, items)) for query, items in content.items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise UserError(f"{path} is not an object of id lists: {error}") from error
    queries = np.repeat(np.fromiter(lists, np.int64), [len(items) for items in lists.values()])
    items = np.fromiter((item for items in lists.values() for item in items), np.int64)
    return queries, items


def read_categories(path: Path, image_ids: np.ndarray) -> np.ndarray:
    """Which categories occur in every image.

    Args:
      path: COCO's `instances_*.json`, or an npz of `image_ids` [K] and `labels` 0/1 [K, C].
      image_ids: int [N]; an image the file does not name has no category.

    Returns:
      uint8 0/1 [N, C], columns in the order of the category ids.
    """
    read = _read_category_table if path.suffix == ".npz" else _read_instances
    ids, image, category, width = read(path)
    at = {int(image_id): row for row, image_id in enumerate(image_ids)}
    rows = np.array([at.get(int(image_id), -1) for image_id in ids], np.int64)
    result = np.zeros((len(image_ids), width), np.uint8)
    row = rows[image]
    result[row[row >= 0], category[row >= 0]] = 1
    if not result.any():
        raise UserError(f"{path} names no image of this split: is it the file of val2014?")
    return result


def _read_category_table(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Image ids [K]; (row of them, column) of everything that occurs, [P] each; columns."""
    try:
        with np.load(path) as table:
            ids, labels = table["image_ids"], table["labels"]
    except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise UserError(f"{path} lacks image_ids and labels: {error}") from error
    if ids.dtype.kind not in "iu" or labels.ndim != 2 or ids.shape != labels.shape[:1]:
        raise UserError(f"{path}: image_ids {ids.shape} and labels {labels.shape} do not match.")
    return ids, *np.nonzero(labels), labels.shape[1]


def _read_instances(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """As `_read_category_table`; crowds count like single objects."""

    def shrink(section: dict) -> Any:
        # Outlines of objects are most of the file: they are dropped as soon as they are read.
        if "category_id" in section:
            return section["image_id"], section["category_id"]
        return section

    try:
        content = _read_json(path, shrink)
        pairs = np.array(sorted(set(content["annotations"])), np.int64).reshape(-1, 2)
        categories = np.array(sorted(each["id"] for each in content["categories"]), np.int64)
    except (KeyError, TypeError) as error:
        raise UserError(f"{path} is not a file of COCO instances: {error}") from error
    ids, image = np.unique(pairs[:, 0], return_inverse=True)
    column = np.searchsorted(categories, pairs[:, 1])
    if not np.isin(pairs[:, 1], categories).all():
        raise UserError(f"{path} has annotations of categories that it does not list.")
    return ids, image, column, len(categories)


def _read_json(path: Path, object_hook: Any = None) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"), object_hook=object_hook)
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read as JSON: {error}") from error


def _whole(item: Any) -> int:
    if isinstance(item, bool) or not isinstance(item, int):
        raise ValueError(f"{item!r} is not an id")
    return item
