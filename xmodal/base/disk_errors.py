"""Clear error messages for a folder or a disk that cannot be written."""

import contextlib
import errno
import os
import re
from collections.abc import Iterator

from xmodal.base.config import UserError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_CLOSED = (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR)


class DiskError(UserError):
    """A disk is full or not writable."""


class FolderInUseError(UserError):
    """Another process is writing the folder."""


@contextlib.contextmanager
def disk_errors(folder: object, remedy: str) -> Iterator[None]:
    """Raises a `DiskError` in place of a disk error, however deep a library wrapped it.

    Args:
      folder: folder that is written, as the message names it.
      remedy: what to do, as a sentence.
    """
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        reason, file = _reason(error)
        if not reason:
            raise
        if file and not _is_within(file, str(folder)):
            raise DiskError(f"{file} cannot be read or written: {reason}.") from error
        raise DiskError(f"{folder} cannot be written: {reason}. {remedy}") from error


def describe_disk_error(error: BaseException) -> str:
    """Returns a sentence on the disk error that caused an error; "" if there is none."""
    reason, file = _reason(error)
    return f"{file or 'A file'} cannot be read or written: {reason}." if reason else ""


def _is_within(file: str, folder: str) -> bool:
    # A folder whose path is a file is written in its parent.
    parent = os.path.dirname(os.path.realpath(folder))
    return os.path.commonpath([os.path.realpath(file), parent]) == parent


def _reason(error: BaseException | None) -> tuple[str, str]:
    """Returns the system's message for the disk error that caused an error, and the file name.

    Both are "" if there is no such error; the name is also "" if it is not known.
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, OSError) and error.errno in _FULL + _CLOSED:
            return os.strerror(error.errno), str(error.filename or "")
        # NumPy does not say why it could not write everything.
        if isinstance(error, OSError) and re.match(r"\d+ requested and \d+ written", str(error)):
            return os.strerror(errno.ENOSPC), ""
        # C++ libraries give only the system's message.
        for number in (*_FULL, errno.EROFS):
            if os.strerror(number) in str(error):
                return os.strerror(number), ""
        error = error.__cause__ or error.__context__
    return "", ""
