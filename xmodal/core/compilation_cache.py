"""The on-disk cache of compiled functions, which makes the second start of a run fast."""

import contextlib
import hashlib
import os
import pathlib
import platform
import re
import zlib
from typing import Any

import jax

from xmodal.core.cache_folder import cache_folder

# Seconds of compilation. JAX keeps nothing below a second, but a command compiles many small
# functions; reading one takes a few milliseconds.
_WORTH_KEEPING = 0.02
_LARGEST = 8 * 2**30  # Bytes of all entries.
_CHECKED = "checked"  # A file whose time is that of the last check.
_ZSTD = b"\x28\xb5\x2f\xfd"  # How entries begin that JAX wrote where zstandard is installed.


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


def _clean(folder: pathlib.Path, largest: int = _LARGEST) -> None:
    """Removes incomplete entries, and the least recently used ones above `largest` bytes.

    JAX's own limit reads a file per entry before it adds one: with 2,000 entries, that takes 0.3 s
    for each. An entry that a kill or a full disk left incomplete would make JAX warn at every
    start. One that another process is still writing may be removed, too, and is compiled again.
    """
    marker, total = folder / _CHECKED, 0
    checked = marker.stat().st_mtime if marker.exists() else 0.0
    marker.touch()
    found = [(entry.stat(), entry) for entry in folder.glob("*-cache")]
    for stat, entry in sorted(found, key=lambda x: -max(x[0].st_atime, x[0].st_mtime)):
        total += stat.st_size
        is_new = stat.st_mtime >= checked
        if total > largest or (is_new and not _is_complete(entry.read_bytes())):
            entry.unlink(missing_ok=True)


def _is_complete(entry: bytes) -> bool:
    """Returns whether an entry can be decompressed; true for zstandard, which may be missing."""
    with contextlib.suppress(zlib.error):
        return entry.startswith(_ZSTD) or bool(zlib.decompress(entry))
    return False


def _machine() -> str:
    """Returns a name of the processor: code compiled for another one may crash on this one."""
    cores = pathlib.Path("/proc/cpuinfo")
    text = cores.read_text() if cores.exists() else platform.processor()
    features = sorted(set(re.findall("^(?:flags|Features).*", text, re.MULTILINE))) or [text]
    return f"{platform.machine()}-{hashlib.sha256(''.join(features).encode()).hexdigest()[:8]}"
