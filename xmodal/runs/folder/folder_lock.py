"""One writer per folder: the file `writer.json` names the process that writes it.

On a file system, local or NFS, the process holds an operating system's lock on `.writer.lock`,
which ends with the process. Object stores have no locks: there, the writer rewrites its entry every
few seconds, and another process takes over when the entry is older than minutes, or names a process
of this machine that is dead.
"""

import contextlib
import dataclasses
import functools
import json
import os
import pathlib
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator

import filelock
from absl import logging
from etils import epath

from data_prep.untrusted.json_text import parse_json_text
from xmodal.base import processes
from xmodal.base.buckets import is_on_bucket
from xmodal.base.config import UserError
from xmodal.base.disk_errors import DiskError, FolderInUseError

LOCK, GUARD = "writer.json", ".writer.lock"
# `check_free` holds the lock of a file system for a moment.
_PATIENCE_SECONDS = 1.0
_BEAT_SECONDS = 10.0
_STALE_SECONDS = 120.0
# The last of two writers of an object wins; the other one sees it after this time.
_SETTLE_SECONDS = 2.0


@dataclasses.dataclass(frozen=True)
class Writer:
    """The process that writes a folder.

    Attributes:
      host: its name.
      machine: where `process` is valid: the host, its boot and its container.
      process: its process ID.
      started: seconds since the epoch.
      token: unique to this lock.
    """

    host: str
    machine: str
    process: int
    started: float
    token: str

    @classmethod
    def this_process(cls) -> "Writer":
        """Returns a new entry for this process."""
        return cls(socket.gethostname(), _machine(), os.getpid(), time.time(), uuid.uuid4().hex)


@contextlib.contextmanager
def hold(folder: epath.PathLike) -> Iterator[Callable[[], None]]:
    """Makes this run the only writer of a folder, which is created if it is missing.

    In a run of several processes, all of them call this and process 0 holds the lock.

    Yields:
      A function to call before writing. It raises a `UserError` if another process has taken over,
      as after a long suspension.

    Raises:
      FolderInUseError: another process is writing it (gives its host, process ID and age).
      DiskError: the folder cannot be written.
    """
    path = epath.Path(folder) / LOCK
    with contextlib.ExitStack() as stack:
        check: Callable[[], None] = lambda: None  # noqa: E731
        if processes.index() == 0:
            take = _hold_object if is_on_bucket(path) else _hold_file
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                check = stack.enter_context(take(path))
            except OSError as error:
                raise DiskError(
                    f"Cannot write to {path.parent}: {error}. Use another folder."
                ) from error
        processes.gather(f"take the folder {folder}", "")
        yield check


def check_free(folder: epath.PathLike) -> None:
    """Raises an error if another process is writing a folder; writes nothing.

    Raises:
      FolderInUseError: gives the host, process ID and age of the other process.
    """
    path = epath.Path(folder) / LOCK
    if is_on_bucket(path):
        _check_stale(path, _read(path))
    elif (guard := path.with_name(GUARD)).exists():
        try:
            with filelock.FileLock(guard, timeout=0):
                pass
        except filelock.Timeout:
            raise _in_use(path, _read(path)) from None


@contextlib.contextmanager
def _hold_file(path: epath.Path) -> Iterator[Callable[[], None]]:
    guard, writer = path.with_name(GUARD), Writer.this_process()
    lock = filelock.FileLock(guard, timeout=_PATIENCE_SECONDS)
    try:
        lock.acquire()
    except filelock.Timeout:
        raise _in_use(path, _read(path)) from None
    try:
        if old := _read(path):
            logging.warning("Took over %s from %s, which ended.", path.parent, _name(old))
        _write(path, writer)
        yield functools.partial(_check_ours, path, writer)
    finally:
        # A process that opened the guard before it goes sees that, and opens a new one.
        with contextlib.suppress(UserError, OSError):
            _check_ours(path, writer)
            path.unlink(missing_ok=True)
            guard.unlink(missing_ok=True)
        lock.release()


@contextlib.contextmanager
def _hold_object(path: epath.Path) -> Iterator[Callable[[], None]]:
    writer, released = Writer.this_process(), threading.Event()
    _check_stale(path, _read(path))
    _write(path, writer)
    time.sleep(_SETTLE_SECONDS)

    check = functools.partial(_check_ours, path, writer)

    def beat() -> None:
        while not released.wait(_BEAT_SECONDS):
            # The store may be unavailable for a while; `check` finds another writer.
            with contextlib.suppress(UserError, OSError):
                check()
                _write(path, writer)

    check()
    thread = threading.Thread(target=beat, name="folder lock", daemon=True)
    thread.start()
    try:
        yield check
    finally:
        released.set()
        thread.join()
        with contextlib.suppress(UserError, OSError):
            check()
            path.unlink(missing_ok=True)


def _check_ours(path: epath.Path, writer: Writer) -> None:
    if (found := _read(path)) != writer:
        if not is_on_bucket(path) and not path.parent.exists():
            raise FolderInUseError(
                f"{path.parent} is gone: it was removed, or its disk unmounted, during the work."
            )
        raise FolderInUseError(
            f"{path.parent} was taken over by {_name(found)}; nothing more is written here."
        )


def _check_stale(path: epath.Path, writer: Writer | None) -> None:
    with contextlib.suppress(FileNotFoundError):
        is_alive = writer is None or writer.machine != _machine() or _is_alive(writer.process)
        # A time in the future, of a clock that was wrong, is no sign of life either.
        if is_alive and abs(time.time() - path.stat().mtime) <= _STALE_SECONDS:
            raise _in_use(path, writer)


def _in_use(path: epath.Path, writer: Writer | None) -> FolderInUseError:
    return FolderInUseError(
        f"{path.parent} is being written by {_name(writer)}. Wait for it, stop it, or use another "
        "folder."
    )


def _name(writer: Writer | None) -> str:
    if writer is None:
        return "another process"
    started = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(writer.started))
    return f"process {writer.process} on {writer.host}, started {started}"


def _write(path: epath.Path, writer: Writer) -> None:
    path.write_text(json.dumps(dataclasses.asdict(writer), indent=2) + "\n")


def _read(path: epath.Path) -> Writer | None:
    try:
        text = path.read_text()
    except (FileNotFoundError, UnicodeDecodeError):
        return None
    try:
        writer = Writer(**parse_json_text(text))
        _name(writer)
        is_process = 0 < writer.process < 2**31
    # It is just being written or removed; OSError: of a time beyond all calendars.
    except (ValueError, TypeError, OverflowError, OSError):
        return None
    return writer if is_process else None


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # It belongs to another user.
    return True


def _machine() -> str:
    """Returns an ID that distinguishes this host's process IDs from those of others."""
    parts = [socket.gethostname()]
    with contextlib.suppress(OSError):  # Only Linux has these.
        parts.append(pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(os.readlink("/proc/self/ns/pid"))
    return " ".join(parts)
