"""Commands that parse their own arguments, in separate processes."""

import re
import subprocess
import sys

import pytest

PROGRAM = """
import os, time

from absl import logging
from xmodal.core import console, errors, progress

progress._PAUSE_SECONDS = 0.2

def main():
    logging.info("a line of a library")
    with progress.progress("Reading", 3) as advance:
        time.sleep(0.3)
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
    (line,) = ended.stderr.splitlines()
    assert re.fullmatch(r"\d\d:\d\d:\d\d Reading: 33 % \(1 of 3\), 00:00 so far, 00:0\d left", line)


@pytest.mark.parametrize(
    ("end", "code", "said"),
    [
        ("raise KeyboardInterrupt", 130, "\nInterrupted.\n"),
        ("raise errors.UserError('No weights.')", 1, "Error: No weights.\n"),
        (
            "raise OSError(28, 'No space left on device', 'weights')",
            1,
            "Error: [Errno 28] No space left on device: 'weights'\n",
        ),
        ("os.close(1); os.dup2(os.pipe()[1], 1); os.close(3); print('a' * 9999)", 141, ""),
    ],
)
def test_a_command_ends_with_one_line(end, code, said):
    ended = run(end)
    assert ended.returncode == code
    assert ended.stderr.endswith(f" left\n{said}")
