"""The command that prepares datasets."""

import os
import pathlib
import sys

import pytest
import tensorflow_datasets as tfds

import data_prep
from data_prep import build
from tests.data_prep.captioned_images import own_folders


def _run(monkeypatch, *args):
    monkeypatch.setattr(sys, "argv", ["build", *args])
    build.main()


def test_beam_is_for_datasets_in_shards(monkeypatch, capsys):
    with pytest.raises(SystemExit):
        _run(monkeypatch, "--dataset=flickr8k", "--beam_pipeline_options=runner=FnApiRunner")
    assert "is for datasets of links; flickr8k is built" in capsys.readouterr().err


def test_tfds_builds_and_loads_a_dataset(tmp_path):
    """What `tfds build data_prep/NAME` runs, without its main module, which imports apache-beam."""
    tfds_build = pytest.importorskip("tensorflow_datasets.scripts.cli.build")
    own_folders.write_images(tmp_path / "files", range(3), "a")
    own_folders.write_images(tmp_path / "files", range(3, 5), "b")
    paths = tfds_build.cli_utils.PathOptions(
        data_dir=tmp_path / "tfds", manual_dir=tmp_path / "files"
    )
    name = os.fspath(pathlib.Path(data_prep.__file__).parent / "class_folders")
    tfds_build.Args(positional_datasets=[name], paths=paths).execute()
    records = tfds.load("class_folders/images", data_dir=tmp_path / "tfds", split="test")
    assert sorted(int(record["label"]) for record in records) == [0, 0, 0, 1, 1]
    assert tfds.builder_cls("coco_captions") is data_prep.builder_class("coco_captions")
