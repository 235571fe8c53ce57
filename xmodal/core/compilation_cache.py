"""The on-disk cache of compiled functions, which makes the second start of a run fast."""

import hashlib
import os
import pathlib
import platform
import re
from typing import Any

import jax

from xmodal.core.files import cache_folder

# Seconds of compilation. JAX keeps nothing below a second, but a command compiles many small
# functions; reading one takes a few milliseconds.
_WORTH_KEEPING = 0.02
_LARGEST = 8 * 2**30  # Bytes of all entries.


def use_compilation_cache() -> None:
    """Keeps compiled functions in the user's cache folder, unless JAX has one or caching is off.

    JAX's own `JAX_COMPILATION_CACHE_DIR`, `JAX_ENABLE_COMPILATION_CACHE` and
    `JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS` are respected. Several processes may share the
    folder: JAX recompiles if an entry cannot be read.
    """
    # JAX's flags are attributes that type checkers do not see.
    config: Any = jax.config
    if config.jax_compilation_cache_dir or not config.jax_enable_compilation_cache:
        return
    folder = cache_folder("compiled", _machine())
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _clean(folder)
    except OSError:
        return  # The home folder is not writable, or the disk is full; compiling takes longer.
    jax.config.update("jax_compilation_cache_dir", os.fspath(folder))
    if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
        jax.config.update("jax_persistent_cache_min_compile_time_secs", _WORTH_KEEPING)


def _clean(folder: pathlib.Path) -> None:
    """Removes the least recently used entries above `_LARGEST` bytes.

    JAX's own limit reads a file per entry before it adds one: with 2,000 entries, that takes 0.3 s
    for each.
    """
    total, found = 0, [(entry.stat(), entry) for entry in folder.glob("*-cache")]
    for stat, entry in sorted(found, key=lambda x: -max(x[0].st_atime, x[0].st_mtime)):
        total += stat.st_size
        if total > _LARGEST:
            entry.unlink(missing_ok=True)


def _machine() -> str:
    """Returns a name of the processor: code compiled for another one may crash on this one."""
    cores = pathlib.Path("/proc/cpuinfo")
    text = cores.read_text() if cores.exists() else platform.processor()
    features = sorted(set(re.findall("^(?:flags|Features).*", text, re.MULTILINE))) or [text]
    return f"{platform.machine()}-{hashlib.sha256(''.join(features).encode()).hexdigest()[:8]}"
