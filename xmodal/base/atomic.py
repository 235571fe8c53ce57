"""Atomic writes of files and folders."""

import contextlib
import glob
import os
import pathlib
import shutil
import uuid
from collections.abc import Iterator
from typing import BinaryIO

from absl import logging
from etils import epath

from data_prep.building.unfinished import is_dead, try_lock
from xmodal.base.buckets import is_on_bucket
from xmodal.base.entries import find_entries


@contextlib.contextmanager
def replacing(path: epath.PathLike) -> Iterator[BinaryIO]:
    """Opens a new file that replaces `path` at the end, unless there is an error."""
    path = epath.Path(path)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with temporary.open("wb") as file:
            yield file
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def rename_new(temporary: pathlib.Path, path: pathlib.Path) -> None:
    """Renames a file; unlike `rename`, never replaces one that another process has created.

    Raises:
      FileExistsError: `path` exists; the temporary file stays.
    """
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:  # A file system without hard links.
        temporary.rename(path)
    temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def new_folder(path: epath.PathLike) -> Iterator[epath.Path]:
    """Makes a hidden folder that is renamed to `path` at the end, unless there is an error.

    Hidden folders that killed processes left there are removed.
    """
    path = epath.Path(path)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    temporary.mkdir(parents=True)
    with contextlib.nullcontext() if is_on_bucket(path) else _locked(temporary):
        try:
            yield temporary
            temporary.rename(path)
        except BaseException:
            temporary.rmtree()
            raise


@contextlib.contextmanager
def _locked(folder: epath.Path) -> Iterator[None]:
    """Locks a hidden folder while this process lives; removes those with the same name to be."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try_lock(descriptor)
        name = folder.name.removesuffix(folder.suffix)
        for other in find_entries(folder.parent, f"{glob.escape(name)}.{32 * '[0-9a-f]'}"):
            if is_dead(other):
                logging.info("Removing %s, left by a killed process.", other)
                shutil.rmtree(other, ignore_errors=True)
        yield
    finally:
        os.close(descriptor)
