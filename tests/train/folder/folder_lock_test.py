"""One writer per folder, with real processes."""

import concurrent.futures
import contextlib
import subprocess
import sys

import pytest

from xmodal.core.errors import FolderInUseError, UserError
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


def test_holders_that_follow_each_other_never_overlap(tmp_path):
    def hold_often():
        held = 0
        while held < 20:
            with contextlib.suppress(UserError), folder_lock.hold(tmp_path / "run"):
                (tmp_path / "inside").touch(exist_ok=False)
                (tmp_path / "inside").unlink()
                held += 1
        return held

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        counts = [pool.submit(hold_often) for _ in range(4)]
        assert [each.result() for each in counts] == [20] * 4
    assert list(tmp_path.iterdir()) == []
