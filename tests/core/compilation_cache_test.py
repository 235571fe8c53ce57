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


@pytest.mark.slow
def test_the_second_process_finds_what_the_first_compiled(tmp_path):
    environment = os.environ | {
        "XDG_CACHE_HOME": str(tmp_path),
        "JAX_ENABLE_COMPILATION_CACHE": "true",
    }
    # Those of all tests.
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    environment.pop("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", None)
    command = [sys.executable, "-c", PROGRAM]
    hits, entries = [], []
    for _ in range(2):
        said = subprocess.check_output(command, env=environment, text=True, timeout=100)
        folder, count = said.rsplit(maxsplit=1)
        hits.append(int(count))
        entries.append(sorted(pathlib.Path(folder).glob("*-cache")))
    assert pathlib.Path(folder).parent == tmp_path / "xmodal" / "compiled"
    assert entries[0] == entries[1] != []
    assert hits == [0, len(entries[0])]
