"""Atomic writes of files and folders."""

import contextlib
import os
import pathlib
import uuid
from collections.abc import Iterator
from typing import BinaryIO

from etils import epath


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


def write_atomically(path: epath.PathLike, content: str | bytes) -> None:
    """Writes a file; it replaces the one at `path`, if any, once it is complete."""
    with replacing(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


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
    """Makes a hidden folder, and renames it to `path` at the end, unless there is an error."""
    path = epath.Path(path)
    hidden = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    hidden.mkdir(parents=True)
    try:
        yield hidden
        hidden.rename(path)
    finally:
        hidden.rmtree(missing_ok=True)
