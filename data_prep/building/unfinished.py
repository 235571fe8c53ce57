"""Folders of unfinished builds: kept while a build is running, removed if it was killed.

TFDS builds in a folder `incomplete.<random>_<version>`, which it renames or removes at the end. A
killed build can do neither, and would leave gigabytes there forever.
"""

import contextlib
import fcntl
import os
import pathlib
import shutil
from collections.abc import Iterator

from absl import logging

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
        if not any(path.is_file() or path.name.startswith("incomplete.") for path in left):
            shutil.rmtree(folder, ignore_errors=True)
        raise


@contextlib.contextmanager
def claimed(folder: pathlib.Path) -> Iterator[None]:
    """Marks the folder of a build as in use, and removes the folders of dead processes.

    The mark is a lock on the folder, which the system releases when the process ends.

    Args:
      folder: folder of the build, still empty.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try_lock(descriptor)
        for other in folder.parent.glob(f"incomplete.*_{folder.name.rpartition('_')[2]}"):
            if other.name != folder.name and is_dead(other):
                logging.info("Removing %s, which a killed build left behind.", other)
                shutil.rmtree(other, ignore_errors=True)
        yield
    finally:
        os.close(descriptor)


def is_dead(folder: pathlib.Path) -> bool:
    """Returns whether the process that locked a folder has ended; an empty folder may be new."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:  # It no longer exists.
        return False
    try:
        return try_lock(descriptor) and any(folder.iterdir())
    finally:
        os.close(descriptor)


def try_lock(descriptor: int) -> bool:
    """Locks an open file or folder; False if another process has it or locks are unsupported."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
