"""One writer per folder, with real processes."""

import concurrent.futures
import contextlib
import os
import shutil
import subprocess
import sys
import time

import pytest

from xmodal.core.config import FolderInUseError
from xmodal.core.errors import UserError
from xmodal.train.folder import folder_lock

HOLDER = """
import sys, time
from xmodal.train.folder import folder_lock

with folder_lock.hold(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    """A process that holds the lock of `tmp_path / "run"`."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "run")], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()


def test_the_second_process_gets_host_process_and_start(holder, tmp_path):
    message = rf"is being written by process {holder.pid} on \S+, started \d{{4}}-"
    for look in (folder_lock.check_free, lambda folder: folder_lock.hold(folder).__enter__()):
        with pytest.raises(FolderInUseError, match=message):
            look(tmp_path / "run")


def test_a_killed_process_holds_nothing(holder, tmp_path):
    holder.kill()
    holder.wait()
    folder_lock.check_free(tmp_path / "run")
    with folder_lock.hold(tmp_path / "run") as check:
        check()
        assert f"process {os.getpid()} on" in (tmp_path / "run" / folder_lock.LOCK).read_text()
    assert list((tmp_path / "run").iterdir()) == []
    folder_lock.check_free(tmp_path / "run")


def test_holders_that_follow_each_other_never_overlap(tmp_path):
    def hold_often():
        held = 0
        while held < 20:
            with (
                contextlib.suppress(FolderInUseError),
                folder_lock.hold(tmp_path / "run") as check,
            ):
                (tmp_path / "inside").touch(exist_ok=False)
                check()
                (tmp_path / "inside").unlink()
                held += 1
        return held

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        counts = [pool.submit(hold_often) for _ in range(4)]
        assert [each.result() for each in counts] == [20] * 4
    assert list((tmp_path / "run").iterdir()) == []


def test_a_look_at_a_folder_writes_nothing(tmp_path):
    folder_lock.check_free(tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_of_many_at_once_one_holds(tmp_path):
    (tmp_path / folder_lock.LOCK).write_text("process 7 on pod-3")  # It was killed.
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(tmp_path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    while sum(process.poll() is not None for process in processes) < 3:
        time.sleep(0.05)
    (held,) = [process for process in processes if process.poll() is None]
    assert held.stdout.readline() == "held\n"
    assert f"process {held.pid} on" in (tmp_path / folder_lock.LOCK).read_text()
    losers = [process for process in processes if process is not held]
    assert all("FolderInUseError" in process.communicate()[1] for process in losers)
    held.kill()
    held.communicate()


def test_a_process_that_was_taken_over_stops_and_leaves_the_other_alone(tmp_path):
    lock = tmp_path / folder_lock.LOCK
    with folder_lock.hold(tmp_path) as check:
        check()
        lock.write_text("process 77 on pod-3")
        with pytest.raises(FolderInUseError, match="was taken over by process 77 on pod-3"):
            check()
    assert lock.read_text() == "process 77 on pod-3"


@pytest.mark.parametrize("left", [[], ["."], ["checkpoints/20"]])
def test_a_folder_that_was_removed_is_not_another_writer(tmp_path, left):
    run = tmp_path / "run"

    def lose():
        with folder_lock.hold(run) as check:
            shutil.rmtree(run)
            for name in left:
                (run / name).mkdir(parents=True)
            with pytest.raises(UserError, match="remove it before you start the same command"):
                check()
            raise FileNotFoundError("checkpoints/40")  # Of a library.

    with pytest.raises(UserError, match="run was removed during the work"):
        lose()
    assert run.exists() == bool(left)


def test_other_errors_stay(tmp_path):
    with pytest.raises(ZeroDivisionError), folder_lock.hold(tmp_path / "run"):
        raise ZeroDivisionError


def test_a_folder_that_is_a_file(tmp_path):
    (tmp_path / "run").write_text("mine")
    with (
        pytest.raises(UserError, match=r"Cannot write to .*run: .* Use another folder\."),
        folder_lock.hold(tmp_path / "run"),
    ):
        pass
    assert (tmp_path / "run").read_text() == "mine"
