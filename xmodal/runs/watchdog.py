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

from xmodal.base import processes

_TELL_SECONDS = 10.0
_ANSWER_SECONDS = 5.0


class Watchdog:
    """Checks that a run makes progress; does nothing in a run of one process.

    A thread ends the process if its action does not change for too long: no exception reaches a
    main thread that waits in a collective. Another thread publishes the action, which may block
    where the coordinator hangs. There is no limit until the first action is noted: compiling a
    large step may take longer than any step.
    """

    def __init__(self, limit: float) -> None:
        """Prepares the watchdog.

        Args:
          limit: seconds without a change; 0 for no limit.
        """
        self._limit = limit if processes.count() > 1 else 0.0
        self._doing, self._since = "start", float("inf")
        self._ended = threading.Event()
        self._interval = min(_TELL_SECONDS, self._limit / 10)
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._publisher = threading.Thread(target=self._publish, name="status", daemon=True)

    def __enter__(self) -> "Watchdog":
        """Starts watching."""
        if self._limit:
            self._thread.start()
            self._publisher.start()
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
        while not self._ended.wait(self._interval):
            doing = self._doing
            if time.monotonic() - self._since > self._limit:
                print(self._describe(doing), file=sys.stderr, flush=True)
                os._exit(processes.TRY_AGAIN)

    def _publish(self) -> None:
        while not self._ended.wait(self._interval):
            waited = max(time.monotonic() - self._since, 0.0)
            # The coordinator may hang, or be gone when the run has ended.
            with contextlib.suppress(jax.errors.JaxRuntimeError, AttributeError):
                processes.publish_status(f"{self._doing}, for {waited:.0f} s")

    def _describe(self, doing: str) -> str:
        """Returns the final message, with the latest status of every process."""
        lines = [
            f"\nError: {doing} did not end within {self._limit:.0f} s (config.hang_timeout), so "
            f"process {processes.index()} stops; the same command resumes from the last "
            "checkpoint. A process that lags behind the others, or no longer reports, is the one "
            "that hangs:"
        ]
        statuses = _ask_all()
        if statuses is None:
            return "\n".join([*lines, "  process 0, the coordinator, does not respond"])
        for number, status in enumerate(statuses):
            report = "has reported nothing"
            if status is not None:
                age = time.time() - status.time
                report = f"on {status.host}: {status.text}; reported {age:.0f} s ago"
            lines.append(f"  process {number} {report}")
        return "\n".join(lines)


def _ask_all() -> list[processes.Status | None] | None:
    """Returns the latest status of every process; None if the coordinator does not respond."""
    answers: list[list[processes.Status | None]] = []

    def ask() -> None:
        with contextlib.suppress(jax.errors.JaxRuntimeError):
            answers.append(processes.statuses())

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(_ANSWER_SECONDS)
    return answers[0] if answers else None
