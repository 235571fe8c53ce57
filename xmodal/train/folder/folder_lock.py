"""One writer per folder, which holds an operating system's lock on `.writer.lock`.

The lock works on file systems, local or NFS, and ends with its process. `writer.txt` names that
process to others. Object stores have no locks.
"""

import contextlib
import functools
import os
import socket
import time
from collections.abc import Callable, Iterator

import filelock
from absl import logging
from etils import epath

from xmodal.core import processes
from xmodal.core.buckets import is_on_bucket
from xmodal.core.config import FolderInUseError
from xmodal.core.errors import UserError

LOCK, GUARD = "writer.txt", ".writer.lock"
# `check_free` holds the lock for a moment.
_PATIENCE_SECONDS = 1.0


@contextlib.contextmanager
def hold(folder: epath.PathLike) -> Iterator[Callable[[], None]]:
    """Makes this run the only writer of a folder, which is created if it is missing.

    In a run of several processes, all of them call this and process 0 holds the lock.

    Yields:
      A function to call before writing. It raises an error if the folder was removed in the
      meantime, as do all other errors that follow from it.

    Raises:
      FolderInUseError: another process is writing it (gives its process ID, host and start).
      UserError: the folder cannot be written, or was removed.
    """
    path = epath.Path(folder) / LOCK
    with contextlib.ExitStack() as stack:
        check: Callable[[], None] = lambda: None  # noqa: E731
        if processes.index() == 0:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                if not is_on_bucket(path):
                    check = stack.enter_context(_hold_file(path))
            except OSError as error:
                raise UserError(
                    f"Cannot write to {path.parent}: {error}. Use another folder."
                ) from error
        processes.gather(f"take the folder {folder}", "")
        try:
            yield check
        except Exception:
            check()
            raise


def check_free(folder: epath.PathLike) -> None:
    """Raises an error if another process is writing a folder; writes nothing.

    Raises:
      FolderInUseError: gives the process ID, host and start of the other process.
    """
    path = epath.Path(folder) / LOCK
    if not is_on_bucket(path) and (guard := path.with_name(GUARD)).exists():
        try:
            with filelock.FileLock(guard, timeout=0):
                pass
        except filelock.Timeout:
            raise _in_use(path) from None


@contextlib.contextmanager
def _hold_file(path: epath.Path) -> Iterator[Callable[[], None]]:
    guard, started = path.with_name(GUARD), time.strftime("%Y-%m-%d %H:%M:%S")
    own = f"process {os.getpid()} on {socket.gethostname()}, started {started}"
    lock = filelock.FileLock(guard, timeout=_PATIENCE_SECONDS)
    try:
        lock.acquire()
    except filelock.Timeout:
        raise _in_use(path) from None
    try:
        if old := _read(path):
            logging.warning("Took over %s from %s, which ended.", path.parent, old)
        path.write_text(own)
        yield functools.partial(_check, path, own)
    finally:
        # A process that opened the guard before it goes sees that, and opens a new one.
        if _read(path) == own:
            path.unlink()
            guard.unlink(missing_ok=True)
        lock.release()


def _check(path: epath.Path, own: str) -> None:
    if (found := _read(path)) == own:
        return
    if found:  # A server of files may lose a lock.
        raise FolderInUseError(f"{path.parent} was taken over by {found}; nothing more is written.")
    raise UserError(
        f"{path.parent} was removed during the work, or its disk unmounted. If it is there again, "
        "it is incomplete: remove it before you start the same command again."
    )


def _in_use(path: epath.Path) -> FolderInUseError:
    return FolderInUseError(
        f"{path.parent} is being written by {_read(path) or 'another process'}. Wait for it, stop "
        "it, or use another folder."
    )


def _read(path: epath.Path) -> str:
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""
