"""Ends a run of several processes in which nothing happens any more.

A process that is dead is noticed by JAX's coordination service. One that hangs, in a read from a
disk that is gone or in a kernel that never returns, is not: all others wait in the next collective,
and the job is paid for until somebody looks.
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
    """Watches that a run moves on; does nothing in a run of one process.

    A thread publishes the current action of this process, and ends it when that does not change for
    too long: no exception reaches a main thread that waits in a collective. There is no limit until
    the first action is noted: compiling a large step may take longer than any step.
    """

    def __init__(self, limit: float) -> None:
        """Prepares a watch.

        Args:
          limit: seconds without a change; 0 for no watch.
        """
        self._limit = limit if processes.count() > 1 else 0.0
        self._doing, self._since = "start", float("inf")
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def __enter__(self) -> "Watchdog":
        """Begins the watch."""
        if self._limit:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ends the watch."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def note(self, doing: str) -> None:
        """Notes the action that begins, in the words of the report: "batch of step 12"."""
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
        """Returns the sentence of the end, with the last word of every process."""
        lines = [
            f"\nError: {doing} did not end within {self._limit:.0f} s (config.hang_timeout), so "
            f"process {processes.index()} stops; the same command goes on from the last "
            "checkpoint. A process that is behind the others, or no longer heard of, is the one "
            "that hangs:"
        ]
        try:
            words = processes.told()
        except jax.errors.JaxRuntimeError:
            return "\n".join([*lines, "  process 0, the coordinator, does not answer"])
        for number, word in enumerate(words):
            told = "has told nothing"
            if word is not None:
                told = f"on {word.host}: {word.text}; heard of {time.time() - word.time:.0f} s ago"
            lines.append(f"  process {number} {told}")
        return "\n".join(lines)
