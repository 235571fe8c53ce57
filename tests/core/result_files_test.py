"""Result files are written atomically, all or none."""

import json
import math

import pytest
from etils import epath

from xmodal.core import result_files
from xmodal.core.errors import UserError


def test_files_are_moved_in_together_and_others_stay(tmp_path):
    out = tmp_path / "deep/out"
    out.mkdir(parents=True)
    (out / "report.md").write_text("old")
    (out / "events").write_text("kept")
    (out / "comparison.md").write_text("of the old report")
    result_files.write_files(
        out, {"report.md": "I→T", "ranks.npz": b"\xff"}, stale=["comparison.md", "none.md"]
    )
    assert {path.name: path.read_bytes() for path in out.iterdir()} == {
        "report.md": "I→T".encode(),
        "events": b"kept",
        "ranks.npz": b"\xff",
    }
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["out"]


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


def test_json_has_null_for_undefined_values():
    def refuse(constant):
        pytest.fail(f"{constant} is not JSON")

    text = result_files.format_json(
        {"a": math.nan, "b": {"c": -math.inf, "d": 1.5}, "e": "f", "g": [3, (math.nan,)]}
    )
    found = json.loads(text, parse_constant=refuse)
    assert found == {"a": None, "b": {"c": None, "d": 1.5}, "e": "f", "g": [3, [None]]}
