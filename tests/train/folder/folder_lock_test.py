"""One writer per folder, with real processes."""

import subprocess
import sys

import pytest

from xmodal.core.errors import FolderInUseError
from xmodal.train.folder import folder_lock

HOLDER = """
import sys, time
from xmodal.train.folder import folder_lock

with folder_lock.hold(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_process_is_refused_until_the_first_ends(tmp_path):
    run = tmp_path / "run"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(run)], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout.readline() == "held\n"
    with (
        pytest.raises(FolderInUseError, match="is being written by another process"),
        folder_lock.hold(run),
    ):
        pass
    holder.kill()  # The system releases the lock.
    holder.communicate()
    with folder_lock.hold(run):
        (run / "config.json").touch()
    assert [path.name for path in run.iterdir()] == ["config.json"]
