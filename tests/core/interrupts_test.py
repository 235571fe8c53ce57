"""Ctrl-C before, during and after the imports of a command, in real processes."""

import signal
import subprocess
import sys

import pytest

PROGRAM = """
import os, signal, sys, types

from xmodal.core import console, interrupts

if sys.argv[2] == "ignored":  # As a shell does in the background.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
else:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    interrupts.end_at_once()

def interrupt():
    os.kill(os.getpid(), signal.SIGINT)

def in_its_work():
    interrupt()

if sys.argv[1] == "before":
    interrupt()
console.run(globals().get(sys.argv[1], print))
print("done")
"""


@pytest.mark.parametrize(
    ("moment", "code", "output", "error"),
    [
        ("before", -signal.SIGINT, "", ""),
        ("in_its_work", 130, "", "\nInterrupted.\n"),
    ],
)
def test_when_a_command_is_interrupted(tmp_path, moment, code, output, error):
    (tmp_path / "program.py").write_text(PROGRAM)

    def run(kind):
        command = [sys.executable, str(tmp_path / "program.py"), moment, kind]
        done = subprocess.run(command, capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    assert run("heard") == (code, output, error)
    assert run("ignored")[0] == 0
