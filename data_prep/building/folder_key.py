"""Where a prepared folder is stored, which depends on its files to avoid confusion."""

import os
import pathlib
import re

from tensorflow_datasets.core.constants import DATA_DIR

from data_prep.errors import UnexpectedFilesError
from data_prep.reading.folders import hash_files


def place_of(folder: pathlib.Path, data_dir: str | None) -> str:
    """Returns the `data_dir` of a prepared folder, named after the folder and its files.

    Raises:
      FileNotFoundError: the folder does not exist.
      UnexpectedFilesError: `data_dir` is inside the folder.
    """
    data_dir = data_dir or DATA_DIR
    if is_below(data_dir, folder):
        raise UnexpectedFilesError(
            f"{data_dir}, where the dataset would be stored, is inside {folder}, whose files are "
            "the dataset: name another data_dir"
        )
    title = re.sub(r"\W+", "_", folder.resolve().name)[:40]
    return os.path.join(data_dir, "own", f"{title}-{hash_files(folder)}")


def is_below(path: str | os.PathLike, folder: pathlib.Path) -> bool:
    """Returns whether a path is that of a folder, or inside it; one on an object store is not."""
    return "://" not in os.fspath(path) and pathlib.Path(path).resolve().is_relative_to(
        folder.resolve()
    )


def others(place: pathlib.Path) -> list[pathlib.Path]:
    """Returns the other places of folders of the same name, see `place_of`."""
    title, _, digits = place.name.rpartition("-")
    pattern = f"{title}-{'[0-9a-f]' * len(digits)}"
    return [each for each in place.parent.glob(pattern) if each != place]
