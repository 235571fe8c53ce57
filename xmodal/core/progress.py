"""Progress of long work: a bar on a terminal, occasional lines elsewhere; and where it may stop."""

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator

from absl import logging
from tqdm import tqdm

# Shorter work prints nothing, and pauses between lines grow to a tenth of the time so far.
_QUIET_SECONDS = 10.0
_PAUSE_SHARE = 0.1
_STALLED_SECONDS = 10.0  # Work that does not advance says so this often.

STOPPED = 143  # 128 + SIGTERM: schedulers and shell loops restart such a job.

# Functions that ask whether to stop, and whether all processes of a run must ask together.
_checks: list[tuple[Callable[[], bool], bool]] = []


class StopRequestedError(Exception):
    """Work ended early within `interruptible`."""


@contextlib.contextmanager
def interruptible(is_stopped: Callable[[], bool], *, jointly: bool = False) -> Iterator[None]:
    """Ends work that reports its progress, at the next report after `is_stopped` becomes true.

    Args:
      is_stopped: whether to stop.
      jointly: whether all processes of a run have to call `is_stopped` equally often, see
        `processes.agree_to_stop`; other reports than joint ones then do not end the work.

    Raises:
      StopRequestedError: the work has ended.
    """
    check = is_stopped, jointly
    _checks.append(check)
    try:
        yield
    finally:
        _checks.remove(check)


@contextlib.contextmanager
def stoppable(then: str, agree: Callable[[], bool] | None = None) -> Iterator[None]:
    """Ends the command at the next report of progress after SIGTERM, with exit code `STOPPED`.

    Files are written after the last report, so none is half-written. In one process, a second
    SIGTERM ends it immediately.

    Args:
      then: how to resume, for the message.
      agree: for several processes, `processes.agree_to_stop`; it listens to SIGTERM itself.
    """
    with contextlib.ExitStack() as stack:
        is_stopped = agree or stack.enter_context(_sigterm_received())
        stack.enter_context(interruptible(is_stopped, jointly=agree is not None))
        try:
            yield
        except StopRequestedError as error:
            logging.warning("Stopped by a signal (%s); %s.", error, then)
            sys.exit(STOPPED)


@contextlib.contextmanager
def _sigterm_received() -> Iterator[Callable[[], bool]]:
    received: list[int] = []

    def stop(number: int, frame: object) -> None:
        received.append(number)
        signal.signal(number, signal.SIG_DFL)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield lambda: bool(received)
    finally:
        signal.signal(signal.SIGTERM, before)


def check_stop(what: str, *, jointly: bool = False) -> None:
    """Ends work that waits, see `interruptible`.

    Args:
      what: the work.
      jointly: whether all processes of a run call this equally often, in the same order.

    Raises:
      StopRequestedError: it was asked to end; names `what`.
    """
    if any(is_stopped() for is_stopped, joint in _checks if jointly or not joint):
        raise StopRequestedError(what)


@contextlib.contextmanager
def progress(what: str, total: int, *, jointly: bool = False) -> Iterator[Callable[[int], None]]:
    """Reports progress, rate and remaining time of work that takes over ten seconds.

    Args:
      what: the work, as in "Embedding 25,000 captions".
      total: number of items.
      jointly: whether all processes of a run report equally often, so that they may stop here.

    Yields:
      A function of the number of items done since the last call, see also `interruptible`.
    """
    with _report(what, total) as report:

        def advance(count: int) -> None:
            report(count)
            check_stop(what, jointly=jointly)

        yield advance


@contextlib.contextmanager
def _report(what: str, total: int) -> Iterator[Callable[[int], object]]:
    if sys.stderr.isatty():
        bar = tqdm(desc=what, total=total, delay=_QUIET_SECONDS, leave=False, dynamic_ncols=True)
        # A bar shows its time only when it is drawn again.
        with bar, _waiting(bar.refresh, lambda: bar.n):
            yield bar.update
        return
    started, done, due = time.monotonic(), 0, _QUIET_SECONDS
    first: tuple[int, float] | None = None

    def advance(count: int) -> None:
        nonlocal done, due, first
        done += count
        now = time.monotonic()
        # The first items wait for compilation, so they do not predict the others.
        before, since = first = first or (done, now)
        if now - started >= due and done < total:
            due = now - started + max(_QUIET_SECONDS, _PAUSE_SHARE * (now - started))
            pace = ""
            if now > since:
                rate = (done - before) / (now - since)
                left = tqdm.format_interval((total - done) / rate)
                pace = f", {rate:.3g} per second, {left} left"
            logging.info("%s: %s%s", what, _share(done, total), pace)

    # A single item has no share to show.
    describe = (lambda: f"{what}: {_share(done, total)}") if total > 1 else (lambda: what)

    def say() -> None:
        logging.info("%s, %.0f s so far", describe(), time.monotonic() - started)

    with _waiting(say, lambda: done):
        yield advance


def _share(done: int, total: int) -> str:
    return f"{100 * done // total} % ({done:,} of {total:,})"


@contextlib.contextmanager
def _waiting(say: Callable[[], object], count: Callable[[], float]) -> Iterator[None]:
    """Reports work that does not advance, such as the compilation before its start."""
    ended = threading.Event()

    def watch() -> None:
        seen = count()
        while not ended.wait(_STALLED_SECONDS):
            if count() == seen:
                say()
            seen = count()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
