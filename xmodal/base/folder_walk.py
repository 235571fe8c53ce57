"""Files in a folder and its subfolders, following links."""

import pathlib
from collections.abc import Iterator

from data_prep.reading import folders


def walk(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yields all files, folder by folder in the order of their names; see `data_prep`'s `walk`."""
    for parent, names in folders.walk(folder):
        yield from (parent / name for name in names)
