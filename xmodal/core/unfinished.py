"""Unfinished folders: kept while a process is writing them, removed if it was killed.

A killed process could neither rename nor remove its folder, which would stay forever, with
gigabytes of a build.
"""

import contextlib
import fcntl
import pathlib
import shutil
from collections.abc import Iterator
from typing import BinaryIO

from absl import logging

_LOCK = ".lock"
_NOT_KEPT = ".config"  # TFDS writes its settings there before the first record.


@contextlib.contextmanager
def removed_if_failed(folder: pathlib.Path) -> Iterator[None]:
    """Removes the folder of a dataset after a failed build of it that left nothing to read.

    Args:
      folder: folder of all builds of the dataset; those that run at this time keep it.
    """
    try:
        yield
    except BaseException:
        left = [path for path in folder.rglob("*") if path.parent.name != _NOT_KEPT]
        if not any(map(_is_kept, left)):
            shutil.rmtree(folder, ignore_errors=True)
        raise


def _is_kept(path: pathlib.Path) -> bool:
    # A link may be to a dataset on another disk, and another process may build in a folder.
    return not path.is_dir() or path.is_symlink() or path.name.startswith("incomplete.")


@contextlib.contextmanager
def claimed(folder: pathlib.Path, others: str) -> Iterator[None]:
    """Marks a folder as in use, and removes those of killed processes.

    The mark is a locked file: the system releases the lock when the process ends. A lock on the
    folder itself would bind the processes of one host only, if the folder is on NFS.

    Args:
      folder: new folder of this process.
      others: pattern of the names of folders for the same purpose beside it.
    """
    for lock in folder.parent.glob(f"{others}/{_LOCK}"):
        if _is_left(lock):
            logging.info("Removing %s, left by a killed process.", lock.parent)
            shutil.rmtree(lock.parent, ignore_errors=True)
        elif lock.exists():
            logging.warning(
                "Another process is writing %s; if none is running, delete it.", lock.parent
            )
    lock = folder / _LOCK
    new = folder / f"{_LOCK}.new"
    with new.open("wb") as file:
        _try_lock(file)
        new.rename(lock)  # Others see it only now that it is locked.
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


def _is_left(path: pathlib.Path) -> bool:
    """Returns whether the process that locked a file was killed, and left it."""
    try:
        with path.open("r+b") as file:
            return _try_lock(file) and path.exists()
    except OSError:  # It has just been removed, or is another user's.
        return False


def _try_lock(file: BinaryIO) -> bool:
    """Locks an open file; False if another process has it or locks are unsupported."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
