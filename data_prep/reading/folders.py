"""Files of a folder and its subfolders, following links."""

import fnmatch
import hashlib
import os
import pathlib
from collections.abc import Iterator

_TO_LIST = os.R_OK | os.X_OK


def walk(folder: pathlib.Path) -> Iterator[tuple[pathlib.Path, list[str]]]:
    """Yields folders with the sorted names of their files, in the order of their names.

    Links to folders are followed. Every folder is read only once, so cycles of links are allowed.
    What a desktop or a tool keeps for itself is skipped: see `is_note`, and folders such as `.git`.
    A folder that this user may not read is among the files of its parent.

    Raises:
      PermissionError: `folder` itself may not be read.
    """
    seen: set[str] = set()
    for parent, folders, files in os.walk(folder, onerror=_raise_if_closed, followlinks=True):
        place = os.path.realpath(parent)
        if place in seen:
            folders.clear()
            continue
        seen.add(place)
        own = sorted(name for name in folders if not is_private(name))
        closed = [name for name in own if not os.access(os.path.join(parent, name), _TO_LIST)]
        folders[:] = [name for name in own if name not in closed]
        yield pathlib.Path(parent), sorted([name for name in files if not is_note(name)] + closed)


def _raise_if_closed(error: OSError) -> None:
    if isinstance(error, PermissionError):
        raise error


def hash_files(folder: pathlib.Path) -> str:
    """Returns 16 hexadecimal digits that stand for the files of a folder.

    Files are identified by path, size and modification time, as in `rsync`: reading gigabytes
    before every run would take too long.

    Raises:
      FileNotFoundError: the folder does not exist.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} does not exist or is not a folder{explain(folder)}")
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
    return digest.hexdigest()[:16]


def explain(path: str | os.PathLike) -> str:
    """Returns the end of an error on a missing path: its folder, or a remedy; "" if absolute."""
    if os.fspath(path).startswith("~"):
        return ": a shell does not replace ~ after =, so write the whole path"
    return "" if os.path.isabs(path) else f" in {os.getcwd()}"


def is_note(name: str) -> bool:
    """Returns whether a desktop wrote a file: macOS's `._NAME` beside NAME, `Thumbs.db`, ..."""
    return name.startswith("._") or name in (".DS_Store", "Thumbs.db", "desktop.ini")


def is_private(folder: str) -> bool:
    """Returns whether a tool keeps a folder for itself: `.git`, `@eaDir` with thumbnails, ..."""
    return folder.startswith(".") or folder in ("__MACOSX", "@eaDir")


def files_below(folder: pathlib.Path, *patterns: str) -> list[pathlib.Path]:
    """Sorted paths of the files whose names match one of the patterns, such as `*.tsv`."""
    return sorted(
        parent / name
        for parent, names in walk(folder)
        for name in names
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
    )
