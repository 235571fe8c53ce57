"""Entries of a folder by a pattern of their names."""

import fnmatch

from etils import epath


def find_entries(folder: epath.PathLike, pattern: str) -> list[epath.Path]:
    """Returns the entries of a folder whose names match, sorted; none if there is no folder.

    Unlike `epath.Path.glob`, this does not read the path of the folder as a pattern, too.
    """
    folder = epath.Path(folder)
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if fnmatch.fnmatchcase(path.name, pattern))
