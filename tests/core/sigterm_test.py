"""A command that SIGTERM ends before it has anything to save."""

import signal
import subprocess
import sys

import pytest

from xmodal.core.sigterm import ends_at_sigterm

PROGRAM = """
import ctypes, os, signal, sys, threading, time
from xmodal.core import sigterm

sigterm._GRACE_SECONDS = 0.2

def in_python():
    time.sleep(60)

def in_a_library():
    mutex = ctypes.create_string_buffer(256)
    for _ in range(2):  # The second call never returns, and does not notice a signal.
        ctypes.CDLL(None).pthread_mutex_lock(mutex)

def with_its_own_handler():
    signal.signal(signal.SIGTERM, lambda *_: print("answered", flush=True))
    time.sleep(0.5)
    sys.exit(3)

@sigterm.ends_at_sigterm("Nothing to save.")
def main(work):
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
    try:
        work()
    finally:
        print("unwound", flush=True)

main(globals()[sys.argv[1]])
"""


@pytest.mark.parametrize(
    ("work", "code", "output", "is_told"),
    [
        ("in_python", 143, "unwound\n", True),
        ("in_a_library", 143, "", True),
        ("with_its_own_handler", 3, "answered\nunwound\n", False),
    ],
)
def test_sigterm_ends_the_command_unless_a_handler_within_answers(work, code, output, is_told):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, work], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout) == (code, output), done.stderr
    assert ("Nothing to save." in done.stderr) == is_told
    assert "Traceback" not in done.stderr


def test_everything_is_as_before_afterwards():
    before = signal.getsignal(signal.SIGTERM)
    with ends_at_sigterm("Nothing to save."):
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before
    assert signal.set_wakeup_fd(-1) == -1
