"""Result files are written atomically, all or none."""

import csv
import io
import json
import math
import os

import pytest
from etils import epath

from data_prep.building import record_counts
from data_prep.building.record_counts import LeftOut
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


def test_a_file_gets_its_folder(tmp_path, monkeypatch):
    result_files.write_file(tmp_path / "new/a.txt", "text")
    assert (tmp_path / "new/a.txt").read_text() == "text"
    monkeypatch.chdir(tmp_path)
    result_files.write_file("b.txt", b"\xff")
    assert (tmp_path / "b.txt").read_bytes() == b"\xff"
    with pytest.raises(UserError, match="new is a folder; name a file in it"):
        result_files.write_file("new", "text")
    with pytest.raises(UserError, match=r"^Cannot write to b\.txt: it is a file"):
        result_files.write_file("b.txt/a", "text")


def test_folders_of_others_are_left_alone(tmp_path):
    theirs = [tmp_path / "keep.tmp/precious", tmp_path / "keep/.partial-00000000/precious"]
    for path in theirs:
        path.parent.mkdir(parents=True)
        path.write_text("mine")
    result_files.write_files(tmp_path / "keep", {"report.md": "new"})
    assert [path.read_text() for path in theirs] == ["mine", "mine"]
    assert (tmp_path / "keep/report.md").read_text() == "new"


def test_nothing_is_made_beside_the_folder(tmp_path, monkeypatch):
    """As on a mount point, or below a parent that is read-only."""
    (tmp_path / "out").mkdir()
    make = os.mkdir

    def refuse(path, *arguments, **keywords):
        if os.path.dirname(path) == str(tmp_path):
            raise PermissionError(f"Permission denied: {path}")
        make(path, *arguments, **keywords)

    monkeypatch.setattr(os, "mkdir", refuse)
    result_files.write_files(tmp_path / "out", {"report.md": "new"})
    assert (tmp_path / "out/report.md").read_text() == "new"
    with pytest.raises(UserError, match="Cannot write to .*new: Permission denied: .* Use"):
        result_files.write_files(tmp_path / "new", {"report.md": "new"})


@pytest.mark.parametrize("new", ["new", "new/and/deep"])
def test_a_failure_leaves_the_folder_as_it_was(tmp_path, monkeypatch, new):
    result_files.write_files(tmp_path / "old", {"report.md": "old", "comparison.md": "old"})
    write = type(epath.Path()).write_bytes

    def fail(path, data):
        if data == b"large":
            raise OSError("no space left")
        return write(path, data)

    monkeypatch.setattr(type(epath.Path()), "write_bytes", fail)
    for name in (new, "old"):
        with pytest.raises(UserError, match=f"Cannot write to .*{name}: no space left. Use"):
            result_files.write_files(
                tmp_path / name,
                {"report.md": "new", "ranks.npz": b"large"},
                stale=["comparison.md"],
            )
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == [
        "old",
        "old/comparison.md",
        "old/report.md",
    ]
    assert (tmp_path / "old/report.md").read_text() == "old"


def test_whether_a_folder_can_be_written_is_found_out_without_a_trace(tmp_path):
    (tmp_path / "mine").write_text("a file")
    for name in ("out", "out/deep", "."):
        result_files.check_writable(tmp_path / name)
    with pytest.raises(UserError, match="Cannot write to .*mine: it is a file. Use another"):
        result_files.check_writable(tmp_path / "mine")
    for name in ("mine/out", "mine/out/deep"):
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


@pytest.mark.parametrize(
    "name",
    ['=HYPERLINK("x","y")', "+1+cmd", "-2+3", "@A1", " =1", "\t=1", "\n=1", "\uff1d1"]
    + ["\xa0=1", "\ufeff=1", "\u200b=1", "\x0b=1"],
)
def test_names_are_no_formulas_in_a_spreadsheet(name):
    [_, row] = csv.reader(io.StringIO(result_files.format_csv(name, {"r": -1.5})))
    assert row[:3] == [f"'{name}", "r", "-1.5"]
    assert result_files.csv_text([["-1.5", "+2", -3, "a=b", "-inf"]]) == "-1.5,+2,-3,a=b,-inf\n"
    left_out = LeftOut(name, "no image")
    assert next(csv.reader([record_counts._csv_row(left_out.where, "x").decode()]))[0] == f"'{name}"
