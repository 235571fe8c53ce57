"""Files are written whole or not at all, and read with errors that name them."""

import json
import math

import pytest
from etils import epath

from tests import tiny_encoder as tiny
from xmodal.core import files
from xmodal.core.errors import UserError
from xmodal.train.evaluation import subjects
from xmodal.train.folder import run_folder

DAMAGED = [b"", b'{"a": "\xff\xfe"}']


@pytest.mark.parametrize("content", DAMAGED)
def test_a_torn_file_is_named_with_its_remedy(tmp_path, content):
    run_folder.save_config(str(tmp_path), tiny.make_config())
    (tmp_path / "steps").mkdir()
    for path in (tmp_path / "config.json", tmp_path / "steps/4.json"):
        path.write_bytes(content)
    with pytest.raises(UserError, match=r"config.json is damaged: .*copy it from a backup"):
        run_folder.load_run(str(tmp_path))
    with pytest.raises(UserError, match=r"steps/4.json is damaged: .*remove it and evaluate"):
        subjects.read_others(str(tmp_path), 4, ["a"])


def test_null_is_an_undefined_number(tmp_path):
    path = epath.Path(tmp_path / "numbers.json")
    path.write_text(files.format_json({"a": 1.5, "b": math.nan, "c": 3, "d": math.inf}))
    assert json.loads(path.read_text()) == {"a": 1.5, "b": None, "c": 3, "d": None}
    found = files.read_numbers(path, "write it again.")
    assert found == pytest.approx({"a": 1.5, "b": math.nan, "c": 3, "d": math.nan}, nan_ok=True)
    assert files.read_json(path, "write it again.")["b"] is None


@pytest.mark.parametrize("place", ["gs://bucket/runs/one", "s3://bucket/one"])
def test_paths_on_a_bucket_are_absolute(place):
    assert files.is_in_object_store(place)
    assert str(files.absolute(place)) == place
    # Checkpoints once went to a folder `gs:` in the current one.
    assert str(run_folder.frozen_folder(place)) == f"{place}/frozen"
    assert str(run_folder.step_folder(place, 3)) == f"{place}/checkpoints/3"


def fail_within(writing):
    with writing as target:
        (target / "a").write_text("half")
        raise KeyError


def test_a_folder_gets_its_name_at_the_end_or_never(tmp_path):
    path = tmp_path / "deep" / "folder"
    with pytest.raises(KeyError):
        fail_within(files.new_folder(path))
    assert list(path.parent.iterdir()) == []
    with files.new_folder(path) as made:
        (made / "a").write_text("whole")
        assert not path.exists()
    assert [each.name for each in path.iterdir()] == ["a"]


def test_files_get_their_names_in_order_after_all_are_written(tmp_path, monkeypatch):
    named, replace = [], type(epath.Path()).replace
    monkeypatch.setattr(
        type(epath.Path()), "replace", lambda at, to: (named.append(to.name), replace(at, to))
    )
    files.write_files(tmp_path, {"a": "1", "b": "2", "c": "3"})
    assert named == ["a", "b", "c"]
    contents = {"a": "new", "b": memoryview(b"no text")[::2], "c": "new"}  # Fails when written.
    with pytest.raises(BufferError):
        files.write_files(tmp_path, contents, stale=["c"])
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "a": "1",
        "b": "2",
        "c": "3",
    }


def test_whether_a_folder_can_be_written_is_found_out_without_a_trace(tmp_path):
    (tmp_path / "mine").write_text("a file")
    for name in ("out", "out/deep", "."):
        files.check_writable(tmp_path / name)
    for name in ("mine", "mine/out", "mine/out/deep"):
        with pytest.raises(UserError, match="mine"):
            files.check_writable(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
