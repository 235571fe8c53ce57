"""One writer per folder, with real processes, and time simulated through file times."""

import dataclasses
import json
import os
import subprocess
import sys
import time

import pytest
from etils import epath

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
    """A lock of another process that was last touched `age` seconds ago."""
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


def test_the_second_process_gets_host_process_and_age(holder, tmp_path):
    message = rf"is being written by process {holder.pid} on \S+, started \d+ s ago and last seen"
    for look in (folder_lock.check_free, lambda folder: folder_lock.hold(folder).__enter__()):
        with pytest.raises(UserError, match=message):
            look(tmp_path / "run")
    assert read(tmp_path / "run")["process"] == holder.pid


def test_a_killed_process_holds_nothing(holder, tmp_path):
    holder.kill()
    holder.wait()
    folder_lock.check_free(tmp_path / "run")
    with folder_lock.hold(tmp_path / "run"):
        assert read(tmp_path / "run")["process"] == os.getpid()
    assert list((tmp_path / "run").iterdir()) == []


@pytest.mark.parametrize("silence", [0, 60, 3600])
def test_another_host_is_judged_by_its_last_sign_of_life(tmp_path, silence):
    # No process on this machine has this number; on another machine, it has no meaning.
    write(tmp_path, age=silence, host="pod-3", machine="pod-3 boot 7", process=2**22 + 1)
    if silence < 120:
        with pytest.raises(UserError, match="process 4194305 on pod-3"):
            folder_lock.check_free(tmp_path)
        return
    with folder_lock.hold(tmp_path) as check:
        check()
        assert read(tmp_path)["process"] == os.getpid()


def test_a_lock_that_was_never_written_whole_ages_like_others(tmp_path):
    path = tmp_path / folder_lock.LOCK
    path.touch()
    with pytest.raises(UserError, match="another process"):
        folder_lock.check_free(tmp_path)
    os.utime(path, (0, 0))
    with folder_lock.hold(tmp_path):
        assert read(tmp_path)["process"] == os.getpid()


def test_a_folder_that_is_released_while_it_is_looked_at(tmp_path, monkeypatch):
    path = tmp_path / folder_lock.LOCK
    path.touch()

    def read_too_late(path):
        path.unlink(missing_ok=True)

    with monkeypatch.context() as patch:
        patch.setattr(folder_lock, "_read", read_too_late)
        folder_lock.check_free(tmp_path)
        path.touch()
        lock = folder_lock._acquire(epath.Path(path))
    lock.check()
    lock.release()
    assert not path.exists()


def test_a_folder_that_another_takes_when_it_is_released(tmp_path, monkeypatch):
    path = tmp_path / folder_lock.LOCK
    path.touch()
    create, other = folder_lock._create, folder_lock.Writer.this_process()

    def read_too_late(path):
        path.unlink(missing_ok=True)

    def create_after_another(path, writer):
        if not path.exists():
            create(path, other)
        return create(path, writer)

    monkeypatch.setattr(folder_lock, "_read", read_too_late)
    monkeypatch.setattr(folder_lock, "_create", create_after_another)
    with pytest.raises(UserError, match="is being written by another process"):
        folder_lock._acquire(epath.Path(path))
    assert path.exists()


def test_the_holder_gives_signs_of_life(tmp_path, monkeypatch):
    monkeypatch.setattr(folder_lock, "_BEAT_SECONDS", 0.01)
    with folder_lock.hold(tmp_path):
        os.utime(tmp_path / folder_lock.LOCK, (0, 0))
        for _ in range(1000):
            if is_fresh := (tmp_path / folder_lock.LOCK).stat().st_mtime > 1:
                break
            time.sleep(0.01)
        assert is_fresh


def test_a_process_that_was_taken_over_stops_and_leaves_the_other_alone(tmp_path):
    with folder_lock.hold(tmp_path) as check:
        check()
        other = write(tmp_path, host="pod-3", process=77)
        with pytest.raises(UserError, match="was taken over by process 77 on pod-3"):
            check()
    assert read(tmp_path) == dataclasses.asdict(other)


def test_of_many_that_find_a_dead_writer_one_takes_over(tmp_path):
    write(tmp_path, age=3600, host="pod-3", machine="pod-3 boot 7")
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(tmp_path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    held = []
    while len(held) + sum(process.poll() is not None for process in processes) < 4:
        held = [each for each in processes if each.poll() is None and each.pid == _owner(tmp_path)]
        time.sleep(0.05)
    assert [process.pid for process in held] == [read(tmp_path)["process"]]
    losers = [process for process in processes if process not in held]
    assert all("FolderInUseError" in process.communicate()[1] for process in losers)
    held[0].kill()
    held[0].communicate()


def _owner(folder):
    try:
        return read(folder)["process"]
    except (FileNotFoundError, ValueError):
        return None


def test_a_folder_that_is_a_file(tmp_path):
    (tmp_path / "run").write_text("mine")
    with (
        pytest.raises(UserError, match=r"Cannot write to .*run: .* Use another folder\."),
        folder_lock.hold(tmp_path / "run"),
    ):
        pass
    assert (tmp_path / "run").read_text() == "mine"
