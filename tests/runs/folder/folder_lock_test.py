"""One writer per folder: real processes on a file system, file times in an object store."""

import concurrent.futures
import contextlib
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import time

import pytest

from xmodal.base.config import UserError
from xmodal.runs.folder import folder_lock

HOLDER = """
import sys, time
from xmodal.runs.folder import folder_lock

with folder_lock.hold(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


def write(folder, age=0.0, **changes):
    """An entry of another process that was written `age` seconds ago."""
    writer = dataclasses.replace(folder_lock.Writer.this_process(), **changes)
    path = folder / folder_lock.LOCK
    path.write_text(json.dumps(dataclasses.asdict(writer)))
    os.utime(path, (time.time() - age,) * 2)
    return writer


def read(folder):
    return json.loads((folder / folder_lock.LOCK).read_text())


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


@pytest.fixture
def object_store(monkeypatch):
    """`tmp_path` counts as a folder of an object store."""
    monkeypatch.setattr(folder_lock, "is_on_bucket", lambda path: True)
    monkeypatch.setattr(folder_lock, "_SETTLE_SECONDS", 0)


def test_the_second_process_gets_host_process_and_start(holder, tmp_path):
    message = rf"is being written by process {holder.pid} on \S+, started \d{{4}}-"
    for look in (folder_lock.check_free, lambda folder: folder_lock.hold(folder).__enter__()):
        with pytest.raises(folder_lock.FolderInUseError, match=message):
            look(tmp_path / "run")
    assert read(tmp_path / "run")["process"] == holder.pid


def test_a_killed_process_holds_nothing(holder, tmp_path):
    holder.kill()
    holder.wait()
    folder_lock.check_free(tmp_path / "run")
    with folder_lock.hold(tmp_path / "run") as check:
        check()
        assert read(tmp_path / "run")["process"] == os.getpid()
    assert list((tmp_path / "run").iterdir()) == []
    folder_lock.check_free(tmp_path / "run")


def test_holders_that_follow_each_other_never_overlap(tmp_path):
    def hold_often():
        held = 0
        while held < 20:
            with (
                contextlib.suppress(folder_lock.FolderInUseError),
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
    write(tmp_path, host="pod-3")  # of a process that was killed
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
    assert read(tmp_path)["process"] == held.pid
    losers = [process for process in processes if process is not held]
    assert all("FolderInUseError" in process.communicate()[1] for process in losers)
    held.kill()
    held.communicate()


@pytest.mark.usefixtures("object_store")
# The last one was written by a clock that was a day ahead.
@pytest.mark.parametrize("silence", [0, 60, 3600, -86_400])
def test_another_host_is_judged_by_its_last_sign_of_life(tmp_path, silence):
    # No process on this machine has this number; on another machine, it has no meaning.
    write(tmp_path, age=silence, host="pod-3", machine="pod-3 boot 7", process=2**22 + 1)
    if 0 <= silence < 120:
        with pytest.raises(UserError, match="process 4194305 on pod-3"):
            folder_lock.check_free(tmp_path)
        return
    with folder_lock.hold(tmp_path) as check:
        check()
        assert read(tmp_path)["process"] == os.getpid()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("object_store")
def test_a_dead_process_of_this_machine_holds_no_object(tmp_path):
    write(tmp_path, process=2**22 + 1)
    folder_lock.check_free(tmp_path)
    write(tmp_path, process=os.getppid())
    with pytest.raises(UserError, match=f"process {os.getppid()} on"):
        folder_lock.check_free(tmp_path)


@pytest.mark.usefixtures("object_store")
def test_an_entry_that_was_never_written_whole_ages_like_others(tmp_path):
    path = tmp_path / folder_lock.LOCK
    path.touch()
    with pytest.raises(UserError, match="another process"):
        folder_lock.check_free(tmp_path)
    os.utime(path, (0, 0))
    with folder_lock.hold(tmp_path):
        assert read(tmp_path)["process"] == os.getpid()


@pytest.mark.usefixtures("object_store")
@pytest.mark.parametrize(
    "content",
    ["[" * 100_000, b"\xff", {"started": "y"}, {"started": 1e300}, {"started": -1e18}]
    + [{"process": number} for number in ("x", -1, 10**30)],
)
def test_an_entry_of_other_kinds_ages_like_others(tmp_path, content):
    write(tmp_path, process=os.getpid())
    path = tmp_path / folder_lock.LOCK
    if isinstance(content, dict):
        content = json.dumps(read(tmp_path) | content)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError, match="another process"):
        folder_lock.check_free(tmp_path)
    os.utime(path, (0, 0))
    folder_lock.check_free(tmp_path)


@pytest.mark.usefixtures("object_store")
def test_the_last_of_two_writers_of_an_object_wins(tmp_path, monkeypatch):
    monkeypatch.setattr(folder_lock.time, "sleep", lambda _: write(tmp_path, host="pod-3"))
    with (
        pytest.raises(folder_lock.FolderInUseError, match="was taken over by process .* on pod-3"),
        folder_lock.hold(tmp_path),
    ):
        pass
    assert read(tmp_path)["host"] == "pod-3"


@pytest.mark.usefixtures("object_store")
def test_the_holder_of_an_object_gives_signs_of_life(tmp_path, monkeypatch):
    monkeypatch.setattr(folder_lock, "_BEAT_SECONDS", 0.01)
    with folder_lock.hold(tmp_path):
        os.utime(tmp_path / folder_lock.LOCK, (0, 0))
        for _ in range(1000):
            if is_fresh := (tmp_path / folder_lock.LOCK).stat().st_mtime > 1:
                break
            time.sleep(0.01)
        assert is_fresh


@pytest.mark.usefixtures("object_store")
def test_a_process_that_was_taken_over_stops_and_leaves_the_other_alone(tmp_path):
    with folder_lock.hold(tmp_path) as check:
        check()
        other = write(tmp_path, host="pod-3", process=77)
        with pytest.raises(UserError, match="was taken over by process 77 on pod-3"):
            check()
    assert read(tmp_path) == dataclasses.asdict(other)


def test_a_folder_that_goes_away_is_not_another_writer(tmp_path):
    with folder_lock.hold(tmp_path / "run") as check:
        shutil.rmtree(tmp_path / "run")
        with pytest.raises(UserError, match="run is gone: it was removed, or its disk unmounted"):
            check()
    assert not (tmp_path / "run").exists()


def test_a_folder_that_is_a_file(tmp_path):
    (tmp_path / "run").write_text("mine")
    with (
        pytest.raises(UserError, match=r"Cannot write to .*run: .* Use another folder\."),
        folder_lock.hold(tmp_path / "run"),
    ):
        pass
    assert (tmp_path / "run").read_text() == "mine"
