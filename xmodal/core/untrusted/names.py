"""Names of files, classes and splits from elsewhere."""

import pathlib
import unicodedata


def is_inside(name: str) -> bool:
    """Returns whether a name stays in the folder that it is looked up in, also on Windows."""
    kinds = (pathlib.PurePosixPath(name), pathlib.PureWindowsPath(name))
    return "\0" not in name and not any(path.anchor or ".." in path.parts for path in kinds)


def name_key(name: str) -> str:
    """Returns a key that is equal for all spellings of a name.

    Spellings differ in Unicode form, case, blanks, and underscores in place of blanks.
    """
    return " ".join(unicodedata.normalize("NFKC", name).casefold().replace("_", " ").split())
