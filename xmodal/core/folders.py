"""Files of a folder and its subfolders, following links."""

import hashlib
import os
import pathlib
import re
from collections.abc import Iterator

# Hidden folders, and those of Windows, macOS, fsck and network drives.
_PRIVATE = re.compile(
    r"[.$].+|[@#](eadir|recycle|snapshot|tmp)|__macosx|lost\+found|recycler|~snapshot"
    r"|system volume information|temporary items|found\.\d{3}"
)


def walk(folder: pathlib.Path) -> Iterator[tuple[pathlib.Path, list[str]]]:
    """Yields folders with the sorted names of their files, in the order of their names.

    Every folder is read only once, so cycles of links are allowed; folders behind links come last.
    Notes of a desktop are skipped, see `is_note`. A folder that is private or that this user may
    not read is among the files of its parent and not entered.

    Raises:
      OSError: `folder` itself does not exist or may not be read.
    """
    seen: set[str] = set()
    starts = [os.fspath(folder)]
    for start in starts:
        for parent, folders, files in os.walk(start, onerror=_raise):
            place = os.path.realpath(parent)
            if place in seen:
                folders.clear()
                continue
            seen.add(place)
            paths = {name: os.path.join(parent, name) for name in folders}
            folders[:] = sorted(
                name
                for name, path in paths.items()
                if not is_private(name) and os.access(path, os.R_OK | os.X_OK)
            )
            starts += [paths[name] for name in folders if os.path.islink(paths[name])]
            notes = {name for name in files if is_note(name)}
            yield pathlib.Path(parent), sorted({*files, *paths} - notes - {*folders})


def _raise(error: OSError) -> None:
    raise error


def hash_files(folder: pathlib.Path) -> str:
    """Returns 16 hexadecimal digits that stand for the files of a folder.

    Files are identified by path, size and modification time, as in `rsync`: reading gigabytes
    before every run would take too long.

    Raises:
      OSError: see `walk`.
    """
    digest = hashlib.sha256()
    for parent, names in walk(folder):
        for path in (parent / name for name in names):
            if path.is_file():  # Not a link to nothing, nor a folder that is not entered.
                status, relative = path.stat(), os.fsencode(path.relative_to(folder))
                digest.update(b"%s\0%d %d\n" % (relative, status.st_size, status.st_mtime_ns))
    return digest.hexdigest()[:16]


def is_note(path: str) -> bool:
    """Returns whether a desktop keeps a file for itself: `._NAME`, `Thumbs.db`, `__MACOSX/NAME`.

    Args:
      path: name of the file, or its path in an archive.
    """
    *above, name = pathlib.PurePosixPath(path).parts or ("",)
    is_written = name.startswith("._") or name in (".DS_Store", "Thumbs.db", "desktop.ini")
    return is_written or any(map(is_private, above))


def is_private(folder: str) -> bool:
    """Returns whether a system or tool keeps a folder for itself: `.git`, `#recycle`, `@eaDir`."""
    return _PRIVATE.fullmatch(folder.lower()) is not None
