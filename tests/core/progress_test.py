"""Progress messages of long work, and where it stops."""

import logging
import os
import signal
import time

import pytest

from xmodal.core import progress as progress_lib
from xmodal.core.progress import check_stop, progress, stoppable


def wait_until(is_true):
    deadline = time.monotonic() + 20
    while not is_true() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert is_true()


def test_long_work_says_how_far_it_is(monkeypatch, caplog):
    caplog.set_level(logging.INFO, logger="absl")
    monkeypatch.setattr(progress_lib, "_PAUSE_SECONDS", 0.1)
    with progress("Reading", 2000) as advance:
        wait_until(lambda: "Reading: 0 % (0 of 2,000), 00:00 so far, ? left" in caplog.messages)
        advance(15)
        advance(985)
        wait_until(lambda: caplog.messages[-1].startswith("Reading: 50 % (1,000 of 2,000), 00:0"))
        assert caplog.messages[-1].endswith(" left")


def test_a_signal_ends_the_command_at_the_next_report(caplog):
    before = signal.getsignal(signal.SIGTERM)

    @stoppable("try again")
    def work():
        with progress("Reading", 9) as advance:
            advance(1)
            os.kill(os.getpid(), signal.SIGTERM)
            assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL  # For a second one.
            advance(1)

    @stoppable("try again")
    def wait():
        check_stop("Waiting")
        os.kill(os.getpid(), signal.SIGTERM)
        check_stop("Waiting")

    for function, name in ((work, "Reading"), (wait, "Waiting")):
        with pytest.raises(SystemExit) as ended:
            function()
        assert ended.value.code == progress_lib.STOPPED
        assert f"Stopped by a signal ({name}); try again." in caplog.text
    assert signal.getsignal(signal.SIGTERM) == before
