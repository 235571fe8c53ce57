"""The command that prepares datasets."""

import sys
import types

import pytest

import data_prep
from data_prep import build


def _run(monkeypatch, *args):
    monkeypatch.setattr(sys, "argv", ["build", *args])
    build.main()


def test_all_configs_or_one_are_prepared(tmp_path, monkeypatch, capsys):
    prepared = []

    class Prepared:
        data_dir = "somewhere"
        info = types.SimpleNamespace(metadata=None, splits=("test",))

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


def test_unknown_names_list_the_known_ones(monkeypatch, capsys):
    with pytest.raises(SystemExit):
        _run(monkeypatch, "--dataset=flickr")
    assert "flickr8k" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        _run(monkeypatch, "--dataset=flickr8k", "--config=pixels")
    assert "'pixels'; known: images, features, ratings" in capsys.readouterr().err


def test_a_missing_folder_is_named_without_a_stack_trace(tmp_path, monkeypatch):
    folder = tmp_path / "files"
    message = f"flickr8k/images: {folder} does not exist or is empty"
    with pytest.raises(SystemExit, match=message):
        _run(monkeypatch, "--dataset=flickr8k", f"--manual_dir={folder}", f"--data_dir={tmp_path}")
