"""The console output of commands: a readable log, without messages from libraries."""

import contextlib
import io
import logging as log
import os
import pathlib
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from types import FrameType

from absl import flags, logging
from tqdm import tqdm

from xmodal.core.errors import UserError

_ROOT = pathlib.Path(__file__).parents[2]
_OWN = tuple(f"{_ROOT / package}/" for package in ("xmodal", "data_prep", "configs"))
# Libraries that log an error before they raise it.
_LIBRARIES = tuple(
    f"{os.sep}{name}{os.sep}" for name in ("asyncio", "orbax", "tensorflow_datasets")
)


def run(main: Callable[[], None]) -> None:
    """Runs a command that parses its own arguments."""
    flags.FLAGS.mark_as_parsed()  # The log waits for flags, but there are none.
    make_log_readable()
    with readable_errors():
        main()


@contextlib.contextmanager
def readable_errors(*others: type[Exception]) -> Iterator[None]:
    """Ends a command with one line on Ctrl-C, a `UserError`, an `OSError`, or another type."""
    known: tuple[type[Exception], ...] = (UserError, OSError, *others)
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _raise_or_end)
    try:
        yield
    except BrokenPipeError:  # The reader of the output, such as `head`, has read enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Python still writes what it has buffered.
        sys.exit(128 + signal.SIGPIPE)
    except known as error:
        sys.exit(f"Error: {error}")
    except KeyboardInterrupt:
        print("\nInterrupted.", file=sys.stderr)
        sys.exit(130)  # 128 + SIGINT, as in shells.
    finally:
        signal.signal(signal.SIGINT, before)


def _raise_or_end(number: int, frame: FrameType | None) -> None:
    """Raises KeyboardInterrupt; ends the process if extension modules would swallow it."""
    names = (each.f_code.co_filename for each, _ in traceback.walk_stack(frame))
    if "<frozen importlib._bootstrap>" in names:
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
    raise KeyboardInterrupt


def make_log_readable() -> None:
    """One plain line per message, above the bars of a terminal."""
    # TensorFlow and CUDA print messages when they are imported.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # Not that of a notebook.
            stream.reconfigure(errors="replace")
    logging.use_absl_handler()
    logging.set_verbosity(logging.INFO)
    handler = logging.get_absl_handler()
    handler.addFilter(_is_for_users)
    handler.setFormatter(log.Formatter("%(asctime)s %(prefix)s%(message)s", "%H:%M:%S"))
    handler.python_handler.setStream(_AboveBars())


class _AboveBars(io.TextIOBase):
    """Standard error that keeps progress bars below a line intact."""

    def write(self, text: str) -> int:
        tqdm.write(text, file=sys.stderr, end="")
        return len(text)

    def flush(self) -> None:
        sys.stderr.flush()


def _is_for_users(record: log.LogRecord) -> bool:
    record.prefix = "" if record.levelno <= log.INFO else f"{record.levelname}: "
    if record.levelno <= log.INFO:  # Libraries log every file they touch.
        return record.pathname.startswith(_OWN)
    return not any(name in record.pathname for name in _LIBRARIES)
