"""The cache of compiled functions, with real processes that compile a function in a moment."""

import os
import pathlib
import subprocess
import sys

import pytest

PROGRAM = """
import jax
import numpy as np
from xmodal.core.compilation_cache import use_compilation_cache

hits = []
jax.monitoring.register_event_listener(lambda event, **_: hits.append(event))
use_compilation_cache()
# A fifth of a second to compile: what takes less than a few milliseconds is not kept.
jax.jit(lambda x: sum(jax.numpy.sort(n * x) @ x for n in range(1, 10)))(np.ones(100))
print(jax.config.jax_compilation_cache_dir, hits.count("/jax/compilation_cache/cache_hits"))
"""


@pytest.fixture
def compile_in(tmp_path):
    """Starts a process that compiles; returns its folder and hits."""

    environment = dict(os.environ)
    # Those of all tests.
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    environment.pop("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", None)

    def start():
        own = {
            "XDG_CACHE_HOME": str(tmp_path),
            "JAX_ENABLE_COMPILATION_CACHE": "true",
        }
        said = subprocess.check_output(
            [sys.executable, "-c", PROGRAM], env=environment | own, text=True, timeout=100
        )
        folder, hits = said.rsplit(maxsplit=1)
        return folder, int(hits)

    return start


def entries(folder):
    return sorted(pathlib.Path(folder).glob("*-cache"))


@pytest.mark.slow
def test_the_second_process_finds_what_the_first_compiled(compile_in, tmp_path):
    folder = pathlib.Path(compile_in()[0])
    assert folder.parent == tmp_path / "xmodal" / "compiled"
    written = entries(folder)
    assert written
    _, hits = compile_in()
    assert hits == len(written)
    assert entries(folder) == written
