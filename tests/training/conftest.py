"""Compiling costs these tests more than running: leave out what only makes code faster."""

import jax
import pytest


@pytest.fixture(scope="module", autouse=True)
def _compile_quickly():
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
