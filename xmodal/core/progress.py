"""Progress of long work: a bar on a terminal, occasional lines elsewhere; and where it may stop."""

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator

from absl import logging
from tqdm import tqdm

# Shorter work is not reported; later pauses between lines grow to a tenth of the time so far.
_PAUSE_SECONDS = 10.0
_LINE = "{desc}{percentage:.0f} % ({n:,} of {total:,}), {elapsed} so far, {remaining} left"

STOPPED = 143  # 128 + SIGTERM: schedulers and shell loops restart such a job.

# Functions that ask whether to stop, and whether all processes of a run must ask together.
_checks: list[tuple[Callable[[], bool], bool]] = []


class StopRequestedError(Exception):
    """Work ended early within `interruptible`."""


@contextlib.contextmanager
def interruptible(is_stopped: Callable[[], bool]) -> Iterator[None]:
    """Ends work that reports its progress, at the next report after `is_stopped` becomes true.

    Several processes call it equally often, see `processes.agree_to_stop`: only joint reports end
    their work.

    Raises:
      StopRequestedError: the work has ended.
    """
    from xmodal.core import processes  # With JAX, which takes a second.

    check = is_stopped, processes.count() > 1
    _checks.append(check)
    try:
        yield
    finally:
        _checks.remove(check)


@contextlib.contextmanager
def stoppable(then: str) -> Iterator[None]:
    """Ends the command at the next report of progress after SIGTERM, with exit code `STOPPED`.

    Files are written after the last report, so none is half-written. In one process, a second
    SIGTERM ends it immediately; in several, JAX listens.

    Args:
      then: how to resume, for the message.
    """
    from xmodal.core import processes

    received = threading.Event()

    def stop(number: int, frame: object) -> None:
        received.set()
        signal.signal(number, signal.SIG_DFL)

    is_alone = processes.count() == 1
    before = signal.signal(signal.SIGTERM, stop) if is_alone else None
    try:
        with interruptible(received.is_set if is_alone else processes.agree_to_stop):
            yield
    except StopRequestedError as error:
        logging.warning("Stopped by a signal (%s); %s.", error, then)
        sys.exit(STOPPED)
    finally:
        if before is not None:
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
    started, done, due = time.monotonic(), 0, _PAUSE_SECONDS

    def advance(count: int) -> None:
        nonlocal done, due
        done += count
        bar.update(count)
        elapsed = time.monotonic() - started
        if bar.disable and elapsed > due:
            due = max(elapsed + _PAUSE_SECONDS, 1.1 * elapsed)
            line = tqdm.format_meter(done, total, elapsed, prefix=f"{what}: ", bar_format=_LINE)
            logging.info("%s", line)
        check_stop(what, jointly=jointly)

    # disable=None: a bar only on a terminal.
    with tqdm(
        desc=what, total=total, delay=_PAUSE_SECONDS, leave=False, dynamic_ncols=True, disable=None
    ) as bar:
        yield advance
