"""Equal programs are compiled once per process, like with JAX's cache on disk, but in memory.

Every run, evaluation or embedder traces its functions anew; many tests have those of others.
"""

from typing import Any

import numpy as np
from jax._src import cache_key, compiler  # JAX has no public place for another cache.

# By JAX's key of its cache on disk.
PROGRAMS: dict[str, Any] = {}
_compile = compiler.backend_compile_and_load


def share() -> None:
    """Keeps the programs that JAX compiles from now on in `PROGRAMS`, and takes them from there."""
    compiler.backend_compile_and_load = _compile_once


def _compile_once(
    backend: Any, module: Any, devices: Any, options: Any, host_callbacks: Any
) -> Any:
    if host_callbacks:
        return _compile(backend, module, devices, options, host_callbacks)
    key = cache_key.get(module, np.array(list(devices)), options, backend)
    if key not in PROGRAMS:
        PROGRAMS[key] = _compile(backend, module, devices, options, host_callbacks)
    return PROGRAMS[key]
