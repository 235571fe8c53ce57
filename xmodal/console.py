"""What commands print: a readable log, without the lines of libraries."""

import contextlib
import io
import logging as log
import os
import pathlib
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator

from absl import flags, logging
from tqdm import tqdm

_ROOT = pathlib.Path(__file__).parents[1]
_OWN = tuple(f"{_ROOT / package}{os.sep}" for package in ("xmodal", "data_prep", "configs"))


def run(main: Callable[[], None]) -> None:
    """Runs a command that parses its own arguments."""
    flags.FLAGS.mark_as_parsed()  # The log waits for flags, of which there are none.
    make_log_readable()
    with interruptible():
        main()


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Ends a command at Ctrl-C with one line."""
    try:
        yield
    except KeyboardInterrupt:
        print("\nInterrupted.", file=sys.stderr)
        sys.exit(130)  # 128 + SIGINT, as shells have it


@contextlib.contextmanager
def delaying_interrupts() -> Iterator[None]:
    """Lets a Ctrl-C wait for the end: a callback of a library may swallow it within an import."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    pressed = []
    signal.signal(signal.SIGINT, lambda *_: pressed.append(True))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if pressed:
        raise KeyboardInterrupt


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """For imports: keeps off the console what TensorFlow and CUDA print, unless they fail.

    TF_CPP_MIN_LOG_LEVEL does not reach all of these lines. A Ctrl-C waits for the end.
    """
    sys.stderr.flush()
    console = os.dup(2)
    with delaying_interrupts(), tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        except BaseException:
            os.dup2(console, 2)
            file.seek(0)
            os.write(2, file.read())
            raise
        finally:
            os.dup2(console, 2)
            os.close(console)


def make_log_readable() -> None:
    """One plain line per message, above the bars of a terminal."""
    # TensorFlow and CUDA speak of their own affairs when they are imported.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    logging.use_absl_handler()
    logging.set_verbosity(logging.INFO)
    handler = logging.get_absl_handler()
    handler.addFilter(_is_for_users)
    handler.setFormatter(log.Formatter("%(asctime)s %(prefix)s%(message)s", "%H:%M:%S"))
    handler.python_handler.setStream(_AboveBars())
    sys.unraisablehook = _report_unraisable


class _AboveBars(io.TextIOBase):
    """Standard error; a line leaves the bars below it whole."""

    def write(self, text: str) -> int:
        tqdm.write(text, file=sys.stderr, end="")
        return len(text)

    def flush(self) -> None:
        sys.stderr.flush()


def _report_unraisable(unraisable: "sys.UnraisableHookArgs") -> None:
    # Where one write of a checkpoint fails, TensorStore's threads tell a loop that ended with it.
    if str(unraisable.exc_value) != "Event loop is closed":
        sys.__unraisablehook__(unraisable)


def _is_for_users(record: log.LogRecord) -> bool:
    # Libraries speak of every file they touch, and log an error before they raise it.
    record.prefix = "" if record.levelno <= log.INFO else f"{record.levelname}: "
    if record.levelno <= log.INFO:
        return record.pathname.startswith(_OWN)
    return not any(name in record.pathname for name in ("asyncio", "orbax", "tensorflow_datasets"))
