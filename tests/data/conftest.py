"""A tiny prepared dataset for every test of `xmodal.data`."""

import pytest

import data_prep

NAME = "tiny_captions"


@pytest.fixture(scope="session")
def _data_dir(tmp_path_factory):
    return str(tmp_path_factory.mktemp("tfds"))


@pytest.fixture
def tiny_config(_data_dir, monkeypatch):
    """`config.data` of the tiny dataset, prepared on first use and shared by all tests."""
    monkeypatch.setitem(data_prep.BUILDERS, NAME, f"{NAME}_dataset_builder:Builder")
    return {
        "dataset": NAME,
        "config": "images",
        "data_dir": _data_dir,
        "captions_per_image": 2,
        "image": {"size": 24, "augment": {}, "eval_crop": 0.875},
        "text": {"vocabulary_size": 200, "max_length": 12},
    }
