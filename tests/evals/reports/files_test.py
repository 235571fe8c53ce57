"""Result files appear together or not at all."""

import json
import math

import pytest

from xmodal.evals.reports import files
from xmodal.options import UserError


def test_files_are_moved_in_together_and_others_stay(tmp_path):
    out = tmp_path / "deep/out"
    out.mkdir(parents=True)
    (out / "report.md").write_text("old")
    (out / "events").write_text("kept")
    (tmp_path / "deep/out.tmp").mkdir()  # of a process that was killed
    (tmp_path / "deep/out.tmp/report.md").write_text("half")
    files.write_files(out, {"report.md": "new", "ranks.npz": lambda path: path.write_bytes(b"x")})
    assert {path.name: path.read_text() for path in out.iterdir()} == {
        "report.md": "new",
        "events": "kept",
        "ranks.npz": "x",
    }
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["out"]


def test_a_failure_leaves_the_folder_as_it_was(tmp_path):
    def fail(path):
        path.write_text("ha")
        raise OSError("no space left")

    for out in (tmp_path / "new", tmp_path / "old"):
        if out.name == "old":
            files.write_files(out, {"report.md": "old"})
        with pytest.raises(UserError, match=f"Cannot write to .*{out.name}: no space left. Name"):
            files.write_files(out, {"report.md": "new", "ranks.npz": fail})
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")] == [
        "old",
        "old/report.md",
    ]
    assert (tmp_path / "old/report.md").read_text() == "old"


def test_json_has_null_for_what_is_undefined():
    def refuse(constant):
        pytest.fail(f"{constant} is not JSON")

    text = files.format_json({"a": math.nan, "b": {"c": math.nan, "d": 1.5}, "e": "f", "g": 3})
    found = json.loads(text, parse_constant=refuse)
    assert found == {"a": None, "b": {"c": None, "d": 1.5}, "e": "f", "g": 3}


def test_a_folder_that_is_a_file(tmp_path):
    (tmp_path / "out").write_text("mine")
    with pytest.raises(UserError, match="Cannot write to .*out: .*exists"):
        files.write_files(tmp_path / "out", {"report.md": "new"})
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
