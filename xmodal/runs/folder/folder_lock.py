"""One writer per folder: the file `writer.json` names the process that writes it.

The writer touches the file every few seconds. Another process takes over from a dead one. On the
same machine, the process ID shows whether it is alive; elsewhere, it counts as dead if the file has
not been touched for minutes, as far as the clocks of the hosts agree.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator

from absl import logging
from etils import epath

from xmodal.base import processes
from xmodal.base.buckets import is_on_bucket
from xmodal.base.config import UserError
from xmodal.base.disk_errors import DiskError

LOCK = "writer.json"
_BEAT_SECONDS = 10.0
_STALE_SECONDS = 120.0
# Object stores have no exclusive creation: the last of two writers wins; the other one checks.
_SETTLE_SECONDS = 2.0


class FolderInUseError(UserError):
    """Another process is writing the folder."""


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
        host = socket.gethostname()
        return cls(host, _machine(), os.getpid(), time.time(), uuid.uuid4().hex)


class _Lock:
    """The lock of a folder, while it is held."""

    def __init__(self, path: epath.Path, writer: Writer) -> None:
        self._path, self._writer = path, writer
        self._released = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="folder lock", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raises an error if another process has taken over, as after a long suspension.

        Raises:
          UserError: names the other process.
        """
        found = _read(self._path)
        if found is None or found.token != self._writer.token:
            raise FolderInUseError(
                f"{self._path.parent} was taken over by {_describe(self._path, found)} while this "
                "process did not respond; nothing more is written here."
            )

    def release(self) -> None:
        """Lets others write."""
        self._released.set()
        self._thread.join()
        with contextlib.suppress(UserError, OSError):
            self.check()
            self._path.unlink(missing_ok=True)

    def _beat(self) -> None:
        while not self._released.wait(_BEAT_SECONDS):
            # The file system may be unavailable for a while; `check` finds another writer.
            with contextlib.suppress(UserError, OSError):
                self.check()
                _touch(self._path, self._writer)


@contextlib.contextmanager
def hold(folder: epath.PathLike) -> Iterator[Callable[[], None]]:
    """Makes this run the only writer of a folder, which is created if it is missing.

    In a run of several processes, all of them call this and process 0 holds the lock.

    Yields:
      A function to call before writing. It raises a `UserError` if another process has taken over,
      which can happen after a long suspension.

    Raises:
      FolderInUseError: another process is writing it (gives its host, process ID and age).
      DiskError: the folder cannot be written.
    """
    lock = _acquire(epath.Path(folder) / LOCK) if processes.index() == 0 else None
    try:
        processes.gather(f"take the folder {folder}", "")
        yield lock.check if lock else lambda: None
    finally:
        if lock:
            lock.release()


def _acquire(path: epath.Path) -> _Lock:
    writer = Writer.this_process()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not _create(path, writer):
            old = _read(path)
            was_released = old is None and not path.exists()
            if not (was_released and _create(path, writer)):
                _check_stale(path, old)
                _take_over(path, old, writer)
    except OSError as error:
        raise DiskError(f"Cannot write to {path.parent}: {error}. Use another folder.") from error
    return _Lock(path, writer)


def check_free(folder: epath.PathLike) -> None:
    """Raises an error if another process is writing a folder; writes nothing.

    Raises:
      FolderInUseError: gives the host, process ID and age of the other process.
    """
    path = epath.Path(folder) / LOCK
    writer = _read(path)
    if path.exists():  # It may have been released while it was read.
        _check_stale(path, writer)


def _check_stale(path: epath.Path, writer: Writer | None) -> None:
    if writer is not None and writer.machine == _machine() and not _is_alive(writer.process):
        return
    if _silence(path) <= _STALE_SECONDS:
        raise FolderInUseError(
            f"{path.parent} is being written by {_describe(path, writer)}. Wait for it, stop it, "
            "or use another folder."
        )


def _take_over(path: epath.Path, old: Writer | None, writer: Writer) -> None:
    """Replaces a dead process with this one; if several try, one wins."""
    marker = path.with_name(f".{LOCK}.{old.token if old else 'unreadable'}")
    if _silence(marker) > _STALE_SECONDS:
        marker.unlink(missing_ok=True)  # from a process that died while taking over
    won = False
    if _create(marker, writer):
        try:
            # Another process may have taken over between the read and the marker.
            if _read(path) == old:
                path.unlink(missing_ok=True)
                won = _create(path, writer)
        finally:
            marker.unlink(missing_ok=True)
    if not won:
        raise FolderInUseError(
            f"{path.parent} was just taken over by {_describe(path, _read(path))}."
        )
    logging.warning("Took over %s from %s, which is no longer running.", path.parent, _name(old))


def _create(path: epath.Path, writer: Writer) -> bool:
    """Creates a file for this process; False if it already exists."""
    content = json.dumps(dataclasses.asdict(writer), indent=2) + "\n"
    if is_on_bucket(path):
        if path.exists():
            return False
        path.write_text(content)
        time.sleep(_SETTLE_SECONDS)
        return _read(path) == writer
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(content)
    except FileExistsError:
        return False
    except OSError:
        path.unlink(missing_ok=True)  # The disk is full.
        raise
    return True


def _touch(path: epath.Path, writer: Writer) -> None:
    if is_on_bucket(path):
        path.write_text(json.dumps(dataclasses.asdict(writer), indent=2) + "\n")
    else:
        os.utime(path)


def _read(path: epath.Path) -> Writer | None:
    try:
        return Writer(**json.loads(path.read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None  # It is just being written or removed.


def _silence(path: epath.Path) -> float:
    """Seconds since the file was last touched."""
    try:
        return time.time() - path.stat().mtime
    except FileNotFoundError:
        return 0.0


def _describe(path: epath.Path, writer: Writer | None) -> str:
    if writer is None:
        return f"another process (see {path})"
    started, silence = time.time() - writer.started, _silence(path)
    return f"{_name(writer)}, started {_span(started)} ago and last seen {_span(silence)} ago"


def _name(writer: Writer | None) -> str:
    return f"process {writer.process} on {writer.host}" if writer else "another process"


def _span(seconds: float) -> str:
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


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
