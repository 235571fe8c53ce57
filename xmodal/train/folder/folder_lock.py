"""One writer per folder, which holds an operating system's lock on `.writer.lock`.

The lock works on file systems, local or NFS, and ends with its process. `writer.txt` names that
process to others. Object stores have no locks.
"""

import contextlib
import os
import pathlib
import socket
import time
from collections.abc import Iterator

import filelock
from etils import epath

from xmodal.core import processes
from xmodal.core.errors import FolderInUseError, UserError
from xmodal.core.object_store import is_in_object_store

LOCK, GUARD = "writer.txt", ".writer.lock"


@contextlib.contextmanager
def hold(folder: epath.PathLike) -> Iterator[None]:
    """Makes this process the only writer of a folder, which is created if it is missing.

    If several processes run together, all of them call this, and process 0 holds the lock. A folder
    in which nothing was written is removed.

    Raises:
      FolderInUseError: another process is writing it (gives its process ID, host and start).
      UserError: the folder cannot be written.
    """
    is_holder = processes.index() == 0 and not is_in_object_store(folder)
    with _hold(pathlib.Path(folder)) if is_holder else contextlib.nullcontext():
        processes.gather(f"take the folder {folder}", "")
        yield


@contextlib.contextmanager
def _hold(path: pathlib.Path) -> Iterator[None]:
    lock, writer = filelock.FileLock(path / GUARD, timeout=0), path / LOCK
    created = [path, *(parent for parent in path.parents if not parent.exists())]
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock.acquire()
        writer.write_text(
            f"process {os.getpid()} on {socket.gethostname()}, started {time.strftime('%F %T')}"
        )
    except filelock.Timeout:
        other = "another process"
        with contextlib.suppress(FileNotFoundError):  # It has ended since.
            other = writer.read_text()
        raise FolderInUseError(
            f"{path} is being written by {other}. Wait for it, stop it, or use another folder."
        ) from None
    except OSError as error:
        raise UserError(f"Cannot write to {path}: {error}. Use another folder.") from error
    try:
        yield
    finally:
        writer.unlink(missing_ok=True)
        # A process that opened the guard before it goes sees that, and opens a new one.
        (path / GUARD).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # They have files now.
            for folder in created:
                folder.rmdir()
        lock.release()
