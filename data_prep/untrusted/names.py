"""Names of files in tables from elsewhere."""

import pathlib


def is_inside(name: str) -> bool:
    """Returns whether a name stays in the folder that it is looked up in, also on Windows."""
    kinds = (pathlib.PurePosixPath(name), pathlib.PureWindowsPath(name))
    return "\0" not in name and not any(path.anchor or ".." in path.parts for path in kinds)
