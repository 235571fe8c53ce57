"""The console output of commands: a readable log, without messages from libraries."""

import contextlib
import io
import logging as log
import os
import pathlib
import signal
import sys
import types
from collections.abc import Callable, Iterator

from absl import flags, logging
from tqdm import tqdm

from xmodal.core.errors import UserError

_ROOT = pathlib.Path(__file__).parents[2]
_OWN = tuple(f"{_ROOT / package}/" for package in ("xmodal", "data_prep", "configs"))
# Libraries that log an error before they raise it.
_LIBRARIES = ("/asyncio/", "/orbax/", "/tensorflow_datasets/")


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
    # Above the progress bars, which stay intact, and into what replaces standard error.
    above_bars = types.SimpleNamespace(
        write=lambda text: tqdm.write(text, file=sys.stderr, end=""),
        flush=lambda: sys.stderr.flush(),
        close=lambda: None,
    )
    handler.python_handler.setStream(above_bars)


def _is_for_users(record: log.LogRecord) -> bool:
    record.prefix = "" if record.levelno <= log.INFO else f"{record.levelname}: "
    if record.levelno <= log.INFO:  # Libraries log every file they touch.
        return record.pathname.startswith(_OWN)
    return not any(name in record.pathname for name in _LIBRARIES)
