"""Where long work stops; `console_test` has its messages."""

import os
import signal

import pytest

from xmodal.core import progress as progress_lib
from xmodal.core.progress import check_stop, progress, stoppable


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
