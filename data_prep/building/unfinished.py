"""Unfinished folders: kept while a process is writing them, removed if it was killed.

A killed process could neither rename nor remove its folder, which would stay forever, with
gigabytes of a build.
"""

import contextlib
import pathlib
import shutil
from collections.abc import Iterator

import filelock
from absl import logging

_LOCK = ".lock"


@contextlib.contextmanager
def claimed(folder: pathlib.Path, others: str) -> Iterator[None]:
    """Locks a folder while it is in use, and removes those of killed processes.

    Args:
      folder: new folder of this process.
      others: pattern of the names of folders for the same purpose beside it.
    """
    for lock in folder.parent.glob(f"{others}/{_LOCK}"):
        # Another process may be using it, or another user.
        with contextlib.suppress(OSError), filelock.FileLock(lock, timeout=0):
            logging.info("Removing %s, left by a killed process.", lock.parent)
            shutil.rmtree(lock.parent, ignore_errors=True)
    with filelock.FileLock(folder / _LOCK):
        try:
            yield
        finally:
            (folder / _LOCK).unlink(missing_ok=True)
