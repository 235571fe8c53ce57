"""Small datasets, and runs over them."""

import pathlib

import pytest

import data_prep
from tests import tiny_run
from xmodal.train import loop


@pytest.fixture(scope="module")
def tiny_data_dir(tmp_path_factory):
    """A TFDS folder for the dataset `tiny_captions`, which is built on first use."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(pathlib.Path(__file__).parents[1] / "data")
        patch.setitem(data_prep.BUILDERS, tiny_run.TINY, f"{tiny_run.TINY}_dataset_builder:Builder")
        yield str(tmp_path_factory.mktemp("tfds"))


@pytest.fixture(scope="module")
def config(tiny_data_dir):
    """The config of a small run; modules may override it."""
    return tiny_run.make_config(tiny_data_dir)


@pytest.fixture(scope="module")
def whole(config, tmp_path_factory):
    """An undisturbed run: its folder, and the training loss by step."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, tiny_run.train(config, folder)


@pytest.fixture
def change_batches(monkeypatch):
    """Passes every batch through a function of (step, batch)."""
    make_batches = loop.make_batches

    def install(function):
        def changed(parts, first_step, features):
            for step, batch in enumerate(make_batches(parts, first_step, features), first_step):
                yield function(step, batch)

        monkeypatch.setattr(loop, "make_batches", changed)

    return install
