"""Result files are written atomically, all or none."""

import pytest
from etils import epath

from xmodal.core import result_files
from xmodal.core.errors import UserError


def test_files_get_their_names_in_order_after_all_are_written(tmp_path, monkeypatch):
    named, replace = [], type(epath.Path()).replace
    monkeypatch.setattr(
        type(epath.Path()), "replace", lambda at, to: (named.append(to.name), replace(at, to))
    )
    result_files.write_files(tmp_path, {"a": "1", "b": "2", "c": "3"})
    assert named == ["a", "b", "c"]
    contents = {"a": "new", "b": memoryview(b"no text")[::2], "c": "new"}  # Fails when written.
    with pytest.raises(BufferError):
        result_files.write_files(tmp_path, contents, stale=["c"])
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "a": "1",
        "b": "2",
        "c": "3",
    }


def test_whether_a_folder_can_be_written_is_found_out_without_a_trace(tmp_path):
    (tmp_path / "mine").write_text("a file")
    for name in ("out", "out/deep", "."):
        result_files.check_writable(tmp_path / name)
    for name in ("mine", "mine/out", "mine/out/deep"):
        with pytest.raises(UserError, match=f"Cannot write to .*{name}: .*[Nn]ot a directory"):
            result_files.check_writable(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
