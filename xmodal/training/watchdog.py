"""Ends a run of several processes that makes no more progress.

JAX's coordination service notices a dead process, but not one that hangs in a read from a lost disk
or in a kernel that never returns: all others wait in the next collective, and the job keeps
running, and costing money, until someone notices.
"""

import contextlib
import os
import sys
import threading
import time
from types import TracebackType

import jax

from xmodal import processes

_TELL_SECONDS = 10.0


class Watchdog:
    """Checks that a run makes progress; does nothing in a run of one process.

    A thread publishes the current action of this process, and ends the process if the action does
    not change for too long: no exception reaches a main thread that waits in a collective. There is
    no limit until the first action is noted: compiling a large step may take longer than any step.
    """

    def __init__(self, limit: float) -> None:
        """Prepares the watchdog.

        Args:
          limit: seconds without a change; 0 for no limit.
        """
        self._limit = limit if processes.count() > 1 else 0.0
        self._doing, self._since = "start", float("inf")
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def __enter__(self) -> "Watchdog":
        """Starts watching."""
        if self._limit:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stops watching."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def note(self, doing: str) -> None:
        """Notes the action that begins, as the report names it: "batch of step 12"."""
        self._doing, self._since = doing, time.monotonic()

    def _watch(self) -> None:
        while not self._ended.wait(min(_TELL_SECONDS, self._limit / 10)):
            doing, waited = self._doing, max(time.monotonic() - self._since, 0.0)
            with contextlib.suppress(jax.errors.JaxRuntimeError):  # the coordinator may hang
                processes.tell(f"{doing}, for {waited:.0f} s")
            if waited > self._limit:
                print(self._describe(doing), file=sys.stderr, flush=True)
                os._exit(processes.TRY_AGAIN)

    def _describe(self, doing: str) -> str:
        """Returns the final message, with the latest status of every process."""
        lines = [
            f"\nError: {doing} did not end within {self._limit:.0f} s (config.hang_timeout), so "
            f"process {processes.index()} stops; the same command resumes from the last "
            "checkpoint. A process that is behind the others, or no longer reports, is the one "
            "that hangs:"
        ]
        try:
            words = processes.told()
        except jax.errors.JaxRuntimeError:
            return "\n".join([*lines, "  process 0, the coordinator, does not respond"])
        for number, word in enumerate(words):
            told = "has reported nothing"
            if word is not None:
                told = f"on {word.host}: {word.text}; reported {time.time() - word.time:.0f} s ago"
            lines.append(f"  process {number} {told}")
        return "\n".join(lines)
