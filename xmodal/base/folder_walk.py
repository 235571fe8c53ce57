"""Files in a folder and its subfolders, following links, and which of them are pictures."""

import pathlib
from collections.abc import Iterator

from data_prep.reading import folders
from data_prep.reading.folders import hash_files
from data_prep.reading.picture_names import (
    IMAGE_ENDINGS,
    composed,
    fault_of_file,
    is_unread_picture,
)

__all__ = ["IMAGE_ENDINGS", "composed", "fault_of_file", "hash_files", "is_unread_picture", "walk"]


def walk(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yields all files, and folders that are not entered; see `data_prep`'s `walk`."""
    for parent, names in folders.walk(folder):
        yield from (parent / name for name in names)
