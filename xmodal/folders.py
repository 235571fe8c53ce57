"""Files in a folder and its subfolders, following links."""

import os
import pathlib
from collections.abc import Iterator


def walk(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yields all files, folder by folder in the order of their names.

    Links to folders are followed. Every folder is read once, so that links may form a circle.
    """
    seen: set[str] = set()
    for parent, folders, files in os.walk(folder, followlinks=True):
        place = os.path.realpath(parent)
        if place in seen:
            folders.clear()
            continue
        seen.add(place)
        folders.sort()
        yield from (pathlib.Path(parent, name) for name in sorted(files))
