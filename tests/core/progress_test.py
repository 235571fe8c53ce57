"""Progress messages of long work, with a clock that the tests control."""

import fcntl
import io
import logging
import os
import signal
import struct
import subprocess
import sys
import termios
import time
import types

import pytest

from xmodal.core import progress as progress_lib
from xmodal.core.progress import StopRequestedError, check_stop, interruptible, progress, stoppable


@pytest.fixture
def clock(monkeypatch):
    now = types.SimpleNamespace(seconds=50.0)
    monkeypatch.setattr(progress_lib, "time", types.SimpleNamespace(monotonic=lambda: now.seconds))
    return now


def work(clock, seconds_per_item, total, caplog):
    caplog.set_level(logging.INFO, logger="absl")
    with progress("Reading", total) as advance:
        for _ in range(total):
            clock.seconds += seconds_per_item
            advance(1)
    return caplog.messages


def test_work_ends_at_the_next_report_after_a_request():
    requested, done = [], []

    def long_work():
        with progress("Reading", 9) as advance:
            for item in range(9):
                if item == 4:
                    requested.append(True)
                done.append(item)
                advance(1)

    with pytest.raises(StopRequestedError), interruptible(lambda: bool(requested)):
        long_work()
    assert done == [0, 1, 2, 3, 4]
    done.clear()
    long_work()  # Nothing listens any more.
    assert done == list(range(9))


def test_short_work_says_nothing(clock, caplog):
    assert work(clock, 0.9, 11, caplog) == []


def test_long_work_gives_rate_and_remaining_time(clock, caplog):
    lines = work(clock, 0.5, 2000, caplog)
    # 1,000 s: every 10 s of the first 100 s, and from then on after another tenth of the time.
    assert len(lines) == 33
    assert lines[0] == "Reading: 1 % (20 of 2,000), 2 per second, 16:30 left"
    assert lines[9] == "Reading: 10 % (200 of 2,000), 2 per second, 15:00 left"
    assert lines[10] == "Reading: 11 % (220 of 2,000), 2 per second, 14:50 left"


@pytest.mark.parametrize(("total", "share"), [(5, ": 0 % (0 of 5)"), (1, "")])
def test_work_that_does_not_advance_is_not_silent(total, share, monkeypatch, caplog):
    caplog.set_level(logging.INFO, logger="absl")
    monkeypatch.setattr(progress_lib, "_STALLED_SECONDS", 0.1)
    with progress("Reading", total):
        while len(caplog.messages) < 2:
            time.sleep(0.01)
    assert caplog.messages[0] == f"Reading{share}, 0 s so far"


def test_a_slow_first_item_is_no_measure_of_the_others(clock, caplog):
    caplog.set_level(logging.INFO, logger="absl")
    with progress("Reading", 100) as advance:
        for seconds in (80, 30, 30):
            clock.seconds += seconds
            advance(15)
    assert caplog.messages == [
        "Reading: 15 % (15 of 100)",
        "Reading: 30 % (30 of 100), 0.5 per second, 02:20 left",
        "Reading: 45 % (45 of 100), 0.5 per second, 01:50 left",
    ]


PROGRAM = """
import time
from xmodal.core import progress

progress._QUIET_SECONDS = 0.0
with progress.progress("Reading", 5) as advance:
    for _ in range(5):
        time.sleep(0.12)
        advance(1)
"""


def test_a_terminal_has_a_bar(tmp_path):
    own, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.run([sys.executable, "-c", PROGRAM], stderr=terminal)
    os.close(terminal)
    assert process.returncode == 0
    shown = os.read(own, 100_000).decode()
    os.close(own)
    assert "Reading:  40%|" in shown
    assert "Reading" not in shown.splitlines()[-1].rpartition("\r")[2]  # removed at the end


def test_a_signal_ends_the_command_at_the_next_report(caplog):
    done, before = [], signal.getsignal(signal.SIGTERM)

    @stoppable("try again")
    def work():
        with progress("Reading", 9) as advance:
            for item in range(9):
                if item == 4:
                    os.kill(os.getpid(), signal.SIGTERM)
                    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL  # for a second one
                done.append(item)
                advance(1)

    @stoppable("try again")
    def wait():
        check_stop("Waiting")
        os.kill(os.getpid(), signal.SIGTERM)
        check_stop("Waiting")

    for function, name in ((work, "Reading"), (wait, "Waiting")):
        with pytest.raises(SystemExit) as ended:
            function()
        assert ended.value.code == 143
        assert f"Stopped by a signal ({name}); try again." in caplog.text
    assert done == [0, 1, 2, 3, 4]
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_bar_is_drawn_while_work_does_not_advance(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr("sys.stderr", Terminal())
    monkeypatch.setattr(progress_lib, "_STALLED_SECONDS", 0.1)
    deadline = time.monotonic() + 20
    with progress("Compiling", 1):
        while "Compiling:   0%" not in sys.stderr.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert "Compiling:   0%" in sys.stderr.getvalue()
