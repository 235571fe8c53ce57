"""Memory of functions on a CPU, reused from one call to the next.

XLA allocates the temporaries of a call anew each time. glibc returns blocks of that size to the
system, which zeroes every page again when it is first written: a third of the CPU time of an
EfficientNet. It keeps them only for the thread that started the process.
"""

import ctypes
import sys

import jax

# Parameters of mallopt(3), from glibc's malloc.h.
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4


def compute_in_caller() -> None:
    """Makes functions on one CPU compute in the thread that calls them, not in another.

    To be called before JAX looks for devices.
    """
    jax.config.update("jax_cpu_enable_async_dispatch", False)


def keep_freed_memory(platform: str) -> None:
    """Makes the process keep the memory that it frees, up to its peak.

    Does nothing for other devices than CPUs, without glibc, and where functions compute in other
    threads, see `compute_in_caller`.

    Args:
      platform: of the devices, such as "cpu".
    """
    is_elsewhere = jax.config.read("jax_cpu_enable_async_dispatch")
    if platform != "cpu" or sys.platform != "linux" or is_elsewhere:
        return
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(_MMAP_MAX, 0)
        library.mallopt(_TRIM_THRESHOLD, -1)


def reuse_memory() -> None:
    """Does both, for a command that allocates nothing else before; see `compute_in_caller`."""
    compute_in_caller()
    keep_freed_memory(jax.default_backend())
