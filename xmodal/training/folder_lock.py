"""One writer per folder: the file `writer.json` names the process that writes it.

The writer touches the file every few seconds. Another process takes over from one that is dead:
on the same machine its number says so, elsewhere a file that was not touched for minutes, as far as
the clocks of hosts that share a folder agree.
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

from xmodal import processes
from xmodal.buckets import is_on_bucket
from xmodal.config import UserError
from xmodal.disk_errors import DiskError

LOCK = "writer.json"
_BEAT_SECONDS = 10.0
_STALE_SECONDS = 120.0
# Object stores have no exclusive creation: the last of two writers wins, and the other one looks.
_SETTLE_SECONDS = 2.0


class FolderInUseError(UserError):
    """Another process writes the folder."""


@dataclasses.dataclass(frozen=True)
class Writer:
    """The process that writes a folder.

    Attributes:
      host: its name.
      machine: of which `process` is a process: a boot of the host, and a container on it.
      process: its number.
      started: seconds since the epoch.
      token: of this lock alone.
    """

    host: str
    machine: str
    process: int
    started: float
    token: str

    @classmethod
    def this_process(cls) -> "Writer":
        """Returns a new entry of this process."""
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
        """Refuses to go on where another process took over, as it may after a long suspension.

        Raises:
          UserError: names the other process.
        """
        found = _read(self._path)
        if found is None or found.token != self._writer.token:
            raise FolderInUseError(
                f"{self._path.parent} was taken over by {_describe(self._path, found)} while this "
                "process did not answer; nothing more is written here."
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
            # The file system may be away for a while; `check` says so if another one took over.
            with contextlib.suppress(UserError, OSError):
                self.check()
                _touch(self._path, self._writer)


@contextlib.contextmanager
def hold(folder: epath.PathLike) -> Iterator[Callable[[], None]]:
    """Makes this run the only writer of a folder, which is made if it is missing.

    Process 0 holds the lock of a run of several processes; all of them call this.

    Yields:
      A function to call before writing. It raises a `UserError` where another process took over,
      as it may after a long suspension.

    Raises:
      FolderInUseError: another process writes it (gives its host, number and age).
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
            _check_stale(path, old)
            _take_over(path, old, writer)
    except OSError as error:
        raise DiskError(f"Cannot write to {path.parent}: {error}. Name another folder.") from error
    return _Lock(path, writer)


def check_free(folder: epath.PathLike) -> None:
    """Refuses a folder that another process writes; writes nothing.

    Raises:
      FolderInUseError: gives the host, the number and the age of the other process.
    """
    path = epath.Path(folder) / LOCK
    if path.exists():
        _check_stale(path, _read(path))


def _check_stale(path: epath.Path, writer: Writer | None) -> None:
    if writer is None and not path.exists():
        return  # just released
    if writer is not None and writer.machine == _machine() and not _is_alive(writer.process):
        return
    if _silence(path) <= _STALE_SECONDS:
        raise FolderInUseError(
            f"{path.parent} is being written by {_describe(path, writer)}. Wait for it, stop it, "
            "or name another folder."
        )


def _take_over(path: epath.Path, old: Writer | None, writer: Writer) -> None:
    """Puts this process in the place of a dead one; of several that try, one wins."""
    marker = path.with_name(f".{LOCK}.{old.token if old else 'unreadable'}")
    if _silence(marker) > _STALE_SECONDS:
        marker.unlink(missing_ok=True)  # of a process that died while it took over
    won = False
    if _create(marker, writer):
        try:
            # Another one may have finished between the look and the marker.
            if _read(path) == old:
                path.unlink(missing_ok=True)
                won = _create(path, writer)
        finally:
            marker.unlink(missing_ok=True)
    if not won:
        raise FolderInUseError(
            f"{path.parent} was just taken over by {_describe(path, _read(path))}."
        )
    logging.warning("Took %s over from %s, which is gone.", path.parent, _name(old))


def _create(path: epath.Path, writer: Writer) -> bool:
    """Creates a file of this process; False where there is one."""
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
        path.unlink(missing_ok=True)  # a full disk
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
        return None  # just being written or removed


def _silence(path: epath.Path) -> float:
    """Seconds since the file was touched."""
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
        pass  # of another user
    return True


def _machine() -> str:
    """Returns what tells the process numbers of this host from those of others."""
    parts = [socket.gethostname()]
    with contextlib.suppress(OSError):  # Linux alone has these.
        parts.append(pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(os.readlink("/proc/self/ns/pid"))
    return " ".join(parts)
