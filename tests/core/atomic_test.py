import os
import signal
import subprocess
import sys

import pytest

from xmodal.core.atomic import new_folder, rename_new, replacing


def fail_within(writing):
    with writing as target:
        if hasattr(target, "write"):
            target.write(b"half")
        else:
            (target / "a").write_text("half")
        raise KeyError


def test_a_file_is_replaced_at_the_end(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with replacing(path) as file:
        file.write(b"new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_after_an_error_the_old_file_stays_alone(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(KeyError):
        fail_within(replacing(path))
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_gets_its_name_at_the_end_or_never(tmp_path):
    path = tmp_path / "deep" / "folder"
    with pytest.raises(KeyError):
        fail_within(new_folder(path))
    assert list(path.parent.iterdir()) == []
    with new_folder(path) as made:
        (made / "a").write_text("whole")
        assert not path.exists()
    assert [each.name for each in path.iterdir()] == ["a"]


KILLED = """
import os, signal, sys
from xmodal.core.atomic import new_folder

with new_folder(sys.argv[1]) as made:
    (made / "a").write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_folder_of_a_killed_process_is_removed_by_the_next(tmp_path):
    path = tmp_path / "a[x]"
    killed = subprocess.run([sys.executable, "-c", KILLED, path])
    assert killed.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    others = [tmp_path / f".b.{'0' * 32}", tmp_path / f"{left.name}.txt"]
    for other in others:
        other.mkdir()
        (other / ".lock").touch()
    with new_folder(path) as first:
        assert not left.exists()
        (first / "a").write_text("being written")
        with new_folder(tmp_path / "b"):
            assert not others.pop(0).exists()
        with pytest.raises(KeyError):
            fail_within(new_folder(path))
    assert sorted(tmp_path.iterdir()) == sorted([path, tmp_path / "b", *others])


@pytest.mark.parametrize("links", [True, False])
def test_a_new_file_gets_its_name_once(tmp_path, monkeypatch, links):
    if not links:

        def refuse(source, target):
            raise (FileExistsError if target.exists() else PermissionError)

        monkeypatch.setattr(os, "link", refuse)
    path = tmp_path / "scores"
    for number in range(2):
        (tmp_path / f"new{number}").write_text(str(number))
    rename_new(tmp_path / "new0", path)
    with pytest.raises(FileExistsError):
        rename_new(tmp_path / "new1", path)
    assert path.read_text() == "0"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["new1", "scores"]
