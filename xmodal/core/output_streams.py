"""Standard output and error that a command may lose without ending.

Hours of training should not end because `| head` has read enough, a terminal is closed, or an
encoding lacks the arrow of a table.
"""

import io
import os
import sys
from typing import Any


class _LosableFile(io.FileIO):
    """A file descriptor whose reader may go away; later output is dropped."""

    def write(self, data: Any) -> int:
        """Writes bytes, see `io.FileIO`."""
        try:
            return super().write(data)
        except OSError:  # A closed pipe, or a terminal that is gone.
            _discard(self.fileno())
            return memoryview(data).nbytes


def survive_lost_output() -> None:
    """Replaces both streams of the process, unless somebody else has, such as a notebook."""
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream, original = getattr(sys, name), getattr(sys, f"__{name}__")
        if stream is not original:
            continue
        if stream is None:  # It was closed, and the next file would get its number.
            _discard(number)
        else:
            stream.flush()
        setattr(
            sys,
            name,
            io.TextIOWrapper(
                io.BufferedWriter(_LosableFile(number, "w", closefd=False)),
                encoding=getattr(stream, "encoding", "utf-8"),
                errors="replace",
                line_buffering=name == "stderr" or getattr(stream, "line_buffering", True),
            ),
        )


def _discard(number: int) -> None:
    """Redirects a file descriptor to the null device."""
    null = os.open(os.devnull, os.O_RDWR)
    if null != number:
        os.dup2(null, number)
        os.close(null)
