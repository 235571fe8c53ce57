"""Compiling costs these tests more than running: leave out what only makes code faster."""

import pathlib

import jax
import pytest
from jax.experimental.compilation_cache import compilation_cache

import data_prep

TINY = "tiny_captions"


@pytest.fixture(scope="module", autouse=True)
def _compile_quickly():
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(scope="module")
def compile_once(tmp_path_factory):
    """For modules whose runs compile the same functions: all but the first find them on disk."""
    changes = {
        "jax_enable_compilation_cache": True,
        "jax_compilation_cache_dir": str(tmp_path_factory.mktemp("compiled")),
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    before = {name: getattr(jax.config, name) for name in changes}
    for name, value in changes.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()
    yield
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


@pytest.fixture(scope="module")
def tiny_data_dir(tmp_path_factory):
    """A TFDS folder for the dataset `tiny_captions`, which is built at its first use."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(pathlib.Path(__file__).parents[1] / "data")
        patch.setitem(data_prep.BUILDERS, TINY, f"{TINY}_dataset_builder:Builder")
        yield str(tmp_path_factory.mktemp("tfds"))
