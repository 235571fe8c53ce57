"""The command that prepares datasets."""

import os
import pathlib
import sys
import types

import pytest
import tensorflow_datasets as tfds

import data_prep
from data_prep import build
from tests.data_prep.captioned_images import own_folders


def _run(monkeypatch, *args):
    monkeypatch.setattr(sys, "argv", ["build", *args])
    build.main()


def test_all_configs_or_one_are_prepared(tmp_path, monkeypatch, capsys):
    prepared = []

    class Prepared:
        data_dir = "somewhere"
        info = types.SimpleNamespace(metadata=None, splits=("test",))

    class Empty(Prepared):
        info = types.SimpleNamespace(metadata=None, splits=())

    def record(name, config, **folders):
        prepared.append((name, config, folders["data_dir"], folders["manual_dir"]))
        return Prepared()

    monkeypatch.setattr(build, "build", record)
    _run(monkeypatch, "--dataset=flickr8k", "--manual_dir=files", f"--data_dir={tmp_path}")
    configs = data_prep.builder_class("flickr8k").builder_configs
    assert {"images", "features", "ratings"} <= set(configs)
    assert prepared == [("flickr8k", config, str(tmp_path), "files") for config in configs]
    assert "flickr8k/ratings: somewhere" in capsys.readouterr().out
    prepared.clear()
    _run(monkeypatch, "--dataset=flickr8k", "--config=features")
    assert prepared == [("flickr8k", "features", None, None)]
    capsys.readouterr()
    monkeypatch.setattr(build, "build", lambda *arguments, **options: Empty())
    _run(monkeypatch, "--dataset=flickr8k", "--config=ratings")
    assert "flickr8k/ratings is empty: the files it needs" in capsys.readouterr().out


def test_unknown_names_list_the_known_ones(monkeypatch, capsys):
    with pytest.raises(SystemExit):
        _run(monkeypatch, "--dataset=flickr")
    assert "flickr8k" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        _run(monkeypatch, "--dataset=flickr8k", "--config=pixels")
    assert "'pixels'; known: images, features, ratings" in capsys.readouterr().err


def test_a_missing_folder_is_named_without_a_stack_trace(tmp_path, monkeypatch):
    folder = tmp_path / "files"
    flags = "--dataset=flickr8k", f"--manual_dir={folder}", f"--data_dir={tmp_path}"
    with pytest.raises(SystemExit, match=f"flickr8k/images: {folder} does not exist or is empty"):
        _run(monkeypatch, *flags)
    folder.touch()
    with pytest.raises(SystemExit, match=f"flickr8k/images: {folder} is not a folder"):
        _run(monkeypatch, *flags)


@pytest.mark.parametrize("name", ["data_dir", "manual_dir"])
def test_a_build_on_an_object_store_is_refused(monkeypatch, name):
    with pytest.raises(SystemExit, match=f"--{name}=gs://bucket/x is in an object store; a build"):
        _run(monkeypatch, "--dataset=sbu", f"--{name}=gs://bucket/x")


def test_beam_is_for_datasets_in_shards(monkeypatch, capsys):
    with pytest.raises(SystemExit):
        _run(monkeypatch, "--dataset=flickr8k", "--beam_pipeline_options=runner=FnApiRunner")
    assert "is for datasets in shards; flickr8k is built" in capsys.readouterr().err


def test_a_missing_beam_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    monkeypatch.setitem(sys.modules, "apache_beam.options.pipeline_options", None)
    (tmp_path / "file").touch()
    command = ["--dataset=sbu", f"--manual_dir={tmp_path}", f"--data_dir={tmp_path}"]
    with pytest.raises(SystemExit, match=r"needs apache-beam: pip install -e '\.\[beam\]'"):
        _run(monkeypatch, *command, "--beam_pipeline_options=runner=FnApiRunner")


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
