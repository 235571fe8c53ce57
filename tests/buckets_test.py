"""Paths in object stores remain unchanged."""

import pathlib

import pytest

from xmodal import buckets
from xmodal.training.run_files import run_folder


@pytest.mark.parametrize("place", ["gs://bucket/runs/one", "s3://bucket/one"])
def test_paths_on_a_bucket_are_absolute(place):
    assert buckets.is_on_bucket(place)
    assert str(buckets.absolute(place)) == place
    # Checkpoints once went to a folder `gs:` in the current one.
    assert str(run_folder.frozen_folder(place)) == f"{place}/frozen"
    assert str(run_folder.step_folder(place, 3)) == f"{place}/checkpoints/3"


def test_other_paths_start_in_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert not buckets.is_on_bucket(pathlib.Path("runs/one"))
    assert str(buckets.absolute("runs/one")) == str(tmp_path / "runs" / "one")
