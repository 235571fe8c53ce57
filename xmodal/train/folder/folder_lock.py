"""One writer per folder, which holds an operating system's lock on `.writer.lock`.

The lock works on file systems, local or NFS, and ends with its process. Object stores have none.
"""

import contextlib
import pathlib
from collections.abc import Iterator

import filelock
from etils import epath

from xmodal.core import processes
from xmodal.core.errors import FolderInUseError
from xmodal.core.files import explained, is_in_object_store

_GUARD = ".writer.lock"


@contextlib.contextmanager
def hold(folder: epath.PathLike) -> Iterator[None]:
    """Makes this process the only writer of a folder, which is created if it is missing.

    If several processes run together, all of them call this, and process 0 holds the lock. A folder
    in which nothing was written is removed.

    Raises:
      FolderInUseError: another process is writing it.
      UserError: the folder cannot be written.
    """
    is_holder = processes.index() == 0 and not is_in_object_store(folder)
    with _hold(pathlib.Path(folder)) if is_holder else contextlib.nullcontext():
        processes.gather(f"take the folder {folder}", "")
        yield


@contextlib.contextmanager
def _hold(path: pathlib.Path) -> Iterator[None]:
    lock = filelock.FileLock(path / _GUARD, timeout=0)
    created = [path, *(parent for parent in path.parents if not parent.exists())]
    try:
        with explained(path):
            path.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except filelock.Timeout:
        raise FolderInUseError(
            f"{path} is being written by another process. Wait for it, stop it, or use another "
            "folder."
        ) from None
    try:
        yield
    finally:
        # A process that opened the guard before it goes sees that, and opens a new one.
        (path / _GUARD).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # They have files now.
            for folder in created:
                folder.rmdir()
        lock.release()
