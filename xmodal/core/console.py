"""The console output of commands: a readable log, without messages from libraries."""

import contextlib
import errno
import io
import logging as log
import os
import pathlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator

from absl import flags, logging
from tqdm import tqdm

from xmodal.core import interrupts
from xmodal.core.errors import UserError
from xmodal.core.output_streams import survive_lost_output
from xmodal.core.progress import STOPPED

_ROOT = pathlib.Path(__file__).parents[2]
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
_CLOSED = (errno.EACCES, errno.EPERM, errno.ENOTDIR)
_OWN = tuple(f"{_ROOT / package}{os.sep}" for package in ("xmodal", "data_prep", "configs"))


def run(main: Callable[[], None]) -> None:
    """Runs a command that parses its own arguments."""
    flags.FLAGS.mark_as_parsed()  # The log waits for flags, but there are none.
    make_log_readable()
    with readable_errors():
        main()


@contextlib.contextmanager
def readable_errors(*others: type[Exception]) -> Iterator[None]:
    """Ends a command with one line on a `UserError`, an error of another type, or Ctrl-C.

    The same for a full disk or a missing permission, wherever it was found.
    """
    known: tuple[type[Exception], ...] = (UserError, *others)
    try:
        with interrupts.raised():
            yield
    except known as error:
        sys.exit(f"Error: {error}")
    except KeyboardInterrupt:
        print("\nInterrupted.", file=sys.stderr)
        sys.exit(130)  # 128 + SIGINT, as in shells.
    except Exception as error:
        if problem := _describe_disk_error(error):
            sys.exit(f"Error: {problem}")
        raise


def _describe_disk_error(error: BaseException | None) -> str:
    """Returns a sentence on the full or closed disk that caused an error; "" if none did."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (*_FULL, *_CLOSED):
            return f"{error.filename or 'A file'} cannot be read or written: {error.strerror}."
        # C++ libraries put the system's message into their own, most with the file's name.
        if any(os.strerror(number) in str(error) for number in _FULL):
            return str(error).strip().splitlines()[0]
        error = error.__cause__ or error.__context__
    return ""


def make_log_readable() -> None:
    """One plain line per message, above the bars of a terminal, which may be closed."""
    survive_lost_output()
    # TensorFlow and CUDA print messages when they are imported.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    logging.use_absl_handler()
    logging.set_verbosity(logging.INFO)
    handler = logging.get_absl_handler()
    handler.addFilter(_is_for_users)
    handler.setFormatter(log.Formatter("%(asctime)s %(prefix)s%(message)s", "%H:%M:%S"))
    handler.python_handler.setStream(_AboveBars())
    sys.unraisablehook = _report_unraisable


class _AboveBars(io.TextIOBase):
    """Standard error that keeps progress bars below a line intact."""

    def write(self, text: str) -> int:
        tqdm.write(text, file=sys.stderr, end="")
        return len(text)

    def flush(self) -> None:
        sys.stderr.flush()


def _report_unraisable(unraisable: "sys.UnraisableHookArgs") -> None:
    error = unraisable.exc_value
    is_stop = isinstance(error, SystemExit) and error.code == STOPPED
    if is_stop or isinstance(error, KeyboardInterrupt):
        # A library's callback swallowed the signal, such as JAX's during garbage collection.
        main, number = threading.main_thread().ident, signal.SIGTERM if is_stop else signal.SIGINT
        threading.Timer(0.1, signal.pthread_kill, (main, number)).start()
        return
    # If one write of a checkpoint fails, TensorStore's threads notify an event loop that has ended.
    if str(error) != "Event loop is closed":
        sys.__unraisablehook__(unraisable)


def _is_for_users(record: log.LogRecord) -> bool:
    # Libraries log every file they touch, and log an error before they raise it.
    record.prefix = "" if record.levelno <= log.INFO else f"{record.levelname}: "
    if record.levelno <= log.INFO:
        return record.pathname.startswith(_OWN)
    libraries = ("asyncio", "orbax", "tensorflow_datasets")
    return not any(f"{os.sep}{name}{os.sep}" in record.pathname for name in libraries)
