"""Commands whose output is closed, narrow or read only in part, in separate processes."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import pathlib, sys
from absl import logging
from {module} import run

def main():
    for _ in range(3):
        print("I\\u2192T", flush=True)
        sys.stderr.write("\\u2192\\n")
        pathlib.Path(sys.argv[1]).open("a").write("a line\\n")

run(main)
"""
COMMAND = f'"{sys.executable}" -c "$PROGRAM" "$FILE"'


@pytest.mark.parametrize("module", ["xmodal.core.console", "data_prep.command_line"])
@pytest.mark.parametrize(
    ("shell", "shown"),
    [
        (f"PYTHONIOENCODING=ascii {COMMAND} 2>&1", "I?T\n?\n" * 3),
        (f"{{ {COMMAND}; echo $? > $FILE.code; }} 2>&1 | head -1", "I→T\n"),
        (f"{COMMAND} >&- 2>&-", ""),
    ],
)
def test_a_command_ends_well_without_its_output(shell, shown, module, tmp_path):
    file = tmp_path / "work"
    environment = os.environ | {
        "PROGRAM": PROGRAM.replace("{module}", module),
        "FILE": str(file),
        "PYTHONIOENCODING": "utf-8",
    }
    ended = subprocess.run(["bash", "-c", shell], env=environment, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, shown, "")
    assert file.read_text() == "a line\n" * 3
    code = tmp_path / "work.code"
    assert not code.exists() or code.read_text() == "0\n"
