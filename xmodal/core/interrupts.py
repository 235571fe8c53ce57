"""Ctrl-C: ends a command at once while it imports modules, and raises KeyboardInterrupt later.

Extension modules turn an exception during their import into other errors, or crash. This module
imports nothing else, since programs call `end_at_once` before their other imports.
"""

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

_IMPORTS = "<frozen importlib._bootstrap>"


def end_at_once() -> None:
    """Lets Ctrl-C end the process without a traceback, until `raised` changes that."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # A shell may ignore it.
        signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextlib.contextmanager
def raised() -> Iterator[None]:
    """Raises KeyboardInterrupt at Ctrl-C, but still ends the process while a module is imported."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _raise_or_end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _raise_or_end(number: int, frame: FrameType | None) -> None:
    while frame is not None:
        if frame.f_code.co_filename == _IMPORTS:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        frame = frame.f_back
    raise KeyboardInterrupt
