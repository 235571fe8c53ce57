"""Memory of commands that compute on a CPU, reused from one batch to the next.

XLA allocates temporaries anew for each batch, in several threads. glibc returns blocks of that size
to the system, which zeroes every page again when it is first written: a third of the CPU time of an
EfficientNet's step. It can keep all of them only for one arena, that of the first thread.
"""

import ctypes
import os
import sys

# Parameters of mallopt(3), from glibc's malloc.h.
_TRIM_THRESHOLD, _MMAP_MAX, _ARENA_MAX = -1, -4, -8
# The threads of an arena wait for each other; hosts of accelerators have a hundred cores and more.
_MAX_CORES = 16


def share_arena() -> None:
    """Makes threads that are started from now on allocate in the arena of the first one.

    To be called before JAX looks for devices. Does nothing on more than 16 cores or without glibc.
    """
    if (os.cpu_count() or 1) <= _MAX_CORES:
        _set_options({_ARENA_MAX: 1})


def keep_freed_memory(platform: str) -> None:
    """Makes the process keep the memory that is freed in its first arena, up to its peak.

    Does nothing for other devices than CPUs, and without glibc.

    Args:
      platform: of the devices, such as "cpu".
    """
    if platform == "cpu":
        _set_options({_MMAP_MAX: 0, _TRIM_THRESHOLD: -1})


def _set_options(values: dict[int, int]) -> None:
    if sys.platform != "linux":
        return
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        for option, value in values.items():
            library.mallopt(option, value)
