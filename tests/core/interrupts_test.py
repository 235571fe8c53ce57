"""Ctrl-C before, during and after the imports of a command, in real processes."""

import pathlib
import signal
import subprocess
import sys
import time

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

def while_it_imports():
    import swallowing

def in_its_work():
    interrupt()

def in_a_handler_of_its_own():
    before = signal.signal(signal.SIGINT, lambda *_: print("saves"))
    interrupt()
    signal.signal(signal.SIGINT, before)
    interrupt()

if sys.argv[1] == "before":
    interrupt()
console.run(globals().get(sys.argv[1], print))
print("done")
"""
# As an extension module, which turns the exception into another one.
SWALLOWING = """
import os, signal
try:
    os.kill(os.getpid(), signal.SIGINT)
except BaseException:
    raise ImportError
"""


@pytest.mark.parametrize(
    ("moment", "code", "output", "error"),
    [
        ("before", -signal.SIGINT, "", ""),
        ("while_it_imports", -signal.SIGINT, "", ""),
        ("in_its_work", 130, "", "\nInterrupted.\n"),
        ("in_a_handler_of_its_own", 130, "saves\n", "\nInterrupted.\n"),
    ],
)
def test_when_a_command_is_interrupted(tmp_path, moment, code, output, error):
    (tmp_path / "swallowing.py").write_text(SWALLOWING)
    (tmp_path / "program.py").write_text(PROGRAM)

    def run(kind):
        command = [sys.executable, str(tmp_path / "program.py"), moment, kind]
        done = subprocess.run(command, capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    assert run("heard") == (code, output, error)
    if moment != "in_a_handler_of_its_own":
        assert run("ignored")[0] == 0


@pytest.mark.parametrize("seconds", [0.0, 0.7])
@pytest.mark.parametrize(
    "command",
    [
        "xmodal.main --config=quickstart --workdir={0}/run --config.data.data_dir={0}/data",
        "xmodal.eval_main --follow --run={0}",
    ],
)
def test_an_interrupted_start_has_no_traceback(tmp_path, command, seconds):
    # A shell starts background jobs with SIGINT ignored, which processes inherit.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    started = subprocess.Popen(
        [sys.executable, "-m", *command.format(tmp_path).split()], stderr=subprocess.PIPE, text=True
    )
    signal.signal(signal.SIGINT, before)
    # Until Python has set its handler, and the program has taken it back.
    for is_set in (True, False):
        while _handles_interrupts(started.pid) != is_set and started.poll() is None:
            time.sleep(0.001)
    time.sleep(seconds)
    started.send_signal(signal.SIGINT)
    said = started.communicate(timeout=60)[1]
    assert started.returncode in (-signal.SIGINT, 130), said
    assert "Traceback" not in said


def _handles_interrupts(pid):
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    mask = next(line for line in lines if line.startswith("SigCgt")).split()[1]
    return bool(int(mask, 16) >> (signal.SIGINT - 1) & 1)
