"""Disk errors name the folder being written or the affected file."""

import errno

import pytest

from xmodal.base.disk_errors import DiskError, disk_errors


def test_the_folder_that_is_written(tmp_path):
    inside = OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "run/checkpoints/3"))
    for error in (inside, RuntimeError("write() failed: No space left on device")):
        with pytest.raises(DiskError) as raised, disk_errors(tmp_path / "run", "Make room."):
            raise error
        where = f"{tmp_path / 'run'} cannot be written: "
        assert str(raised.value) == f"{where}No space left on device. Make room."


def test_another_file(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DiskError) as raised, disk_errors("/runs/A", "Make room."):
        (tmp_path / "file/annotations.json").read_text()
    place = tmp_path / "file/annotations.json"
    assert str(raised.value) == f"{place} cannot be read or written: Not a directory."


def test_other_errors_pass():
    with pytest.raises(ValueError, match="mine"), disk_errors("/runs/A", "Make room."):
        raise ValueError("mine")
