"""Small datasets, and runs over them."""

import pathlib

import pytest

import data_prep

TINY = "tiny_captions"


@pytest.fixture(scope="module")
def tiny_data_dir(tmp_path_factory):
    """A TFDS folder for the dataset `tiny_captions`, which is built at its first use."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(pathlib.Path(__file__).parents[1] / "data")
        patch.setitem(data_prep.BUILDERS, TINY, f"{TINY}_dataset_builder:Builder")
        yield str(tmp_path_factory.mktemp("tfds"))
