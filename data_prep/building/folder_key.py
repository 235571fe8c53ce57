"""Where a prepared folder is stored, which depends on its files to avoid confusion."""

import hashlib
import os
import pathlib
import re

from data_prep.reading.folders import walk

_DIGITS = 16


def place_of(folder: pathlib.Path, data_dir: str | None) -> str:
    """Returns the `data_dir` of a prepared folder, named after the folder and its files.

    Raises:
      FileNotFoundError: the folder does not exist.
    """
    from tensorflow_datasets.core.constants import DATA_DIR

    title = re.sub(r"\W+", "_", folder.resolve().name)[:40]
    return os.path.join(data_dir or DATA_DIR, "own", f"{title}-{hash_files(folder)}")


def hash_files(folder: pathlib.Path) -> str:
    """Returns 16 hexadecimal digits that stand for the files of a folder.

    Files are identified by path, size and modification time, as in `rsync`: reading gigabytes
    before every run would take too long.

    Raises:
      FileNotFoundError: the folder does not exist.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} does not exist or is not a folder")
    digest = hashlib.sha256()
    for parent, names in walk(folder):
        for name in names:
            path = parent / name
            try:
                status = path.stat()
            except OSError:  # a link to nothing
                continue
            relative = os.fsencode(path.relative_to(folder))
            digest.update(b"%s\0%d %d\n" % (relative, status.st_size, status.st_mtime_ns))
    return digest.hexdigest()[:_DIGITS]
