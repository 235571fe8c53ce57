"""Paths in object stores remain unchanged."""

import pytest
from etils import epath

from xmodal.core import object_store
from xmodal.train.folder import run_folder


@pytest.mark.parametrize("place", ["gs://bucket/runs/one", "s3://bucket/one"])
def test_paths_on_a_bucket_are_absolute(place):
    assert object_store.is_in_object_store(place)
    assert str(object_store.absolute(place)) == place
    # Checkpoints once went to a folder `gs:` in the current one.
    assert str(run_folder.frozen_folder(place)) == f"{place}/frozen"
    assert str(run_folder.step_folder(place, 3)) == f"{place}/checkpoints/3"


@pytest.mark.parametrize("on_bucket", [False, True])
def test_a_folder_moves_with_all_its_files(tmp_path, monkeypatch, on_bucket):
    """An object store has no folder to rename."""
    monkeypatch.setattr(object_store, "is_in_object_store", lambda path: on_bucket)
    files = {"files.json": "{}", "params/d/1": "one", "params/d/2": "two"}
    source, target = epath.Path(tmp_path / "checkpoints/4"), epath.Path(tmp_path / "damaged/4")
    for _ in range(2):  # The second time, something is in its place.
        for name, text in files.items():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_text(text)
        object_store.move_folder(source, target)
        assert not source.exists()
        moved = [path for path in (tmp_path / "damaged/4").rglob("*") if path.is_file()]
        assert {str(path.relative_to(target)): path.read_text() for path in moved} == files
        (target / "left").write_text("from before")
