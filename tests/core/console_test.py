"""Commands that parse their own arguments, in separate processes."""

import re
import subprocess
import sys

import pytest

PROGRAM = """
from absl import logging
from xmodal.core import console, progress

progress._QUIET_SECONDS = 0.0

def main():
    logging.info("a line of a library")
    with progress.progress("Reading", 3) as advance:
        advance(1)
    {end}

console.run(main)
"""


def run(end):
    program = PROGRAM.format(end=end)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)


def test_a_log_shows_how_far_long_work_is():
    ended = run("print('done')")
    assert (ended.returncode, ended.stdout) == (0, "done\n")
    last = ended.stderr.splitlines()[-1]
    assert re.fullmatch(r"\d\d:\d\d:\d\d Reading: 33 % \(1 of 3\), .* so far, .* left", last)


def test_control_c_ends_a_command_with_one_line():
    ended = run("raise KeyboardInterrupt")
    assert ended.returncode == 130
    assert ended.stderr.endswith(" left\n\nInterrupted.\n")
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (
            "RuntimeError from OSError(28, 'No space left on device', 'weights')",
            "weights cannot be read or written: No space left on device.",
        ),
        (
            "RuntimeError('No space left on device; writing x')",
            "No space left on device; writing x",
        ),
    ],
)
def test_a_full_disk_ends_a_command_with_one_line(raised, said):
    ended = run(f"raise {raised}")
    assert ended.returncode == 1
    said = f"Error: {said}\n"
    assert ended.stderr.endswith(" left\n" + said)
    assert "Traceback" not in ended.stderr


def test_other_errors_end_it_with_a_trace():
    ended = run("raise ValueError('mine')")
    assert ended.stderr.endswith("ValueError: mine\n")
    assert "Traceback" in ended.stderr


THREADS = """
import asyncio

from xmodal.core import console

class Broken:
    def __init__(self, error):
        self.error = error

    def __del__(self):
        raise self.error

def main():
    loop = asyncio.new_event_loop()
    task = loop.create_future()
    task.set_exception(ValueError("one write of many"))
    loop.close()
    del task
    Broken(RuntimeError("Event loop is closed"))
    Broken(RuntimeError("something else"))

console.run(main)
"""


def test_threads_of_a_library_say_nothing_of_an_error_that_was_raised():
    ended = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True)
    assert ended.returncode == 0
    assert "never retrieved" not in ended.stderr
    assert "Event loop is closed" not in ended.stderr
    assert ended.stderr.count("Traceback") == 1
    assert "RuntimeError: something else" in ended.stderr


INTERRUPTED = """
import os
import signal
import sys

from xmodal.core import console

class Swallowing:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)

# A shell may have started the tests in the background, which disables it.
signal.signal(signal.SIGINT, signal.default_int_handler)

def main():
    Swallowing()  # As a callback of a library: an exception in it is only printed.
    print("swallowed", flush=True)
    signal.pause()  # Until a signal comes.
    print("went on")

console.run(main)
"""


def test_a_signal_that_a_callback_swallows_ends_a_command():
    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=60
    )
    assert (ended.returncode, ended.stdout) == (130, "swallowed\n")
    assert ended.stderr == "\nInterrupted.\n"
