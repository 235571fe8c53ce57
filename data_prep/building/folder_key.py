"""Where a prepared folder is stored, which depends on its files to avoid confusion."""

import os
import pathlib
import re

from tensorflow_datasets.core.constants import DATA_DIR

from xmodal.core.errors import UnexpectedFilesError
from xmodal.core.folders import hash_files, is_private


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
    """Returns whether files below a path are among those of a folder, see `walk`.

    Those on an object store are not, nor those in its private folders, such as `.runs`.
    """
    place, folder = pathlib.Path(path).resolve(), folder.resolve()
    if "://" in os.fspath(path) or not place.is_relative_to(folder):
        return False
    return not any(map(is_private, place.relative_to(folder).parts))
