"""The on-disk cache of compiled functions, which makes the second start of a run fast."""

import contextlib
import hashlib
import os
import pathlib
import platform
from typing import Any

import jax

from xmodal.base.cache_folder import cache_folder

# Seconds of compilation. JAX keeps nothing below a second, but a command compiles many small
# functions; reading one takes a few milliseconds.
_WORTH_KEEPING = 0.02


def use_compilation_cache() -> None:
    """Keeps compiled functions in the user's cache folder, unless JAX has one or caching is off.

    JAX's own `JAX_COMPILATION_CACHE_DIR`, `JAX_ENABLE_COMPILATION_CACHE` and
    `JAX_COMPILATION_CACHE_MAX_SIZE` are respected, and so is
    `JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS`. Several processes may share the folder: JAX
    locks it if its size is limited, and recompiles if an entry cannot be read.
    """
    # JAX's flags are attributes that type checkers do not see.
    config: Any = jax.config
    if config.jax_compilation_cache_dir or not config.jax_enable_compilation_cache:
        return
    folder = os.fspath(cache_folder("compiled", _machine()))
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError:
        return  # The home folder is not writable; compiling takes longer.
    if not os.access(folder, os.W_OK):
        return
    _remove_unfinished(pathlib.Path(folder))
    jax.config.update("jax_compilation_cache_dir", folder)
    if "JAX_COMPILATION_CACHE_MAX_SIZE" not in os.environ:
        jax.config.update("jax_compilation_cache_max_size", 8 * 2**30)
    if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
        jax.config.update("jax_persistent_cache_min_compile_time_secs", _WORTH_KEEPING)


def _remove_unfinished(folder: pathlib.Path) -> None:
    """Removes entries left incomplete by a kill or a full disk.

    JAX would keep them and warn at every start. An entry that another process is still writing may
    be removed too; it is compiled again at the next start.
    """
    for entry in folder.glob("*-cache"):
        stamp = entry.with_name(entry.name.removesuffix("-cache") + "-atime")
        with contextlib.suppress(FileNotFoundError):  # Another process may remove it too.
            if not stamp.exists():
                entry.unlink()


def _machine() -> str:
    """Returns a name of the processor: code compiled for another one may crash on this one."""
    features = platform.processor()
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    features += "".join(sorted({line for line in lines if line.startswith(("flags", "Features"))}))
    return f"{platform.machine()}-{hashlib.sha256(features.encode()).hexdigest()[:8]}"
