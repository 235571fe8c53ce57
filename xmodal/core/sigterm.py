"""SIGTERM while there is nothing to save: the command says so and ends."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator

from xmodal.core.progress import STOPPED

_GRACE_SECONDS = 5.0
_END = 0


@contextlib.contextmanager
def ends_at_sigterm(message: str) -> Iterator[None]:
    """Ends the command at SIGTERM with a message and exit code `STOPPED`.

    Where another handler is installed within, it answers instead. The command unwinds, which
    releases its locks, but no Python code of the main thread runs during a long call of a library,
    such as the compilation of a step: then a thread ends the process after some seconds.
    """
    received, ended = threading.Event(), threading.Event()
    reading, writing = os.pipe()
    os.set_blocking(writing, False)

    def stop(number: int, frame: object) -> None:
        received.set()
        sys.exit(STOPPED)

    def watch() -> None:
        while (number := os.read(reading, 1)[0]) != _END:
            # `stop` has not run yet if the main thread is in a library.
            is_ours = received.is_set() or signal.getsignal(signal.SIGTERM) is stop
            if number == signal.SIGTERM and is_ours:
                # Not through the log, which may be in use at this moment.
                os.write(2, f"\n{message}\n".encode())
                if not ended.wait(_GRACE_SECONDS):
                    os._exit(STOPPED)
                return

    # Python writes the number of each signal, whatever the main thread does.
    fd_before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    before = signal.signal(signal.SIGTERM, stop)
    thread = threading.Thread(target=watch, name="SIGTERM", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        signal.signal(signal.SIGTERM, before)
        signal.set_wakeup_fd(fd_before)
        os.write(writing, bytes([_END]))
        thread.join()
        os.close(reading)
        os.close(writing)
