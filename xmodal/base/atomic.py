"""Atomic writes of files and folders."""

import contextlib
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


@contextlib.contextmanager
def new_folder(path: epath.PathLike) -> Iterator[epath.Path]:
    """Makes a hidden folder that is renamed to `path` at the end, unless there is an error."""
    path = epath.Path(path)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    temporary.mkdir(parents=True)
    try:
        yield temporary
        temporary.rename(path)
    except BaseException:
        temporary.rmtree()
        raise
