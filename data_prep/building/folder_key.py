"""Where a prepared folder is stored, which depends on its files to avoid confusion."""

import os
import pathlib
import re

from tensorflow_datasets.core.constants import DATA_DIR

from data_prep.reading.folders import hash_files


def place_of(folder: pathlib.Path, data_dir: str | None) -> str:
    """Returns the `data_dir` of a prepared folder, named after the folder and its files.

    Raises:
      FileNotFoundError: the folder does not exist.
    """
    title = re.sub(r"\W+", "_", folder.resolve().name)[:40]
    return os.path.join(data_dir or DATA_DIR, "own", f"{title}-{hash_files(folder)}")


def others(place: pathlib.Path) -> list[pathlib.Path]:
    """Returns the other places of folders of the same name, see `place_of`."""
    title, _, digits = place.name.rpartition("-")
    pattern = f"{title}-{'[0-9a-f]' * len(digits)}"
    return [each for each in place.parent.glob(pattern) if each != place]
