"""Memory that compiled functions on a CPU reuse in their next call.

XLA allocates the temporary arrays of a function anew at each call. glibc returns freed blocks of
that size to the system, which zeroes their pages again: a third of the CPU time of an EfficientNet.
It can keep such blocks only for the main thread, so functions have to compute there.
"""

import ctypes
import sys

import jax

# Parameters of mallopt(3), from glibc's malloc.h.
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4


def compute_in_caller() -> None:
    """Makes functions on one CPU compute in the thread that calls them, not in another.

    They do so only if all of their arguments are ready. Call this before JAX looks for devices.
    """
    jax.config.update("jax_cpu_enable_async_dispatch", False)


def keep_freed_memory() -> None:
    """Makes the process keep the memory that it frees, up to its peak.

    Does nothing on other devices than CPUs, outside Linux, or without `compute_in_caller`.
    """
    is_elsewhere = jax.config.read("jax_cpu_enable_async_dispatch")
    if jax.default_backend() != "cpu" or sys.platform != "linux" or is_elsewhere:
        return
    library = ctypes.CDLL(None)
    library.mallopt(_MMAP_MAX, 0)
    library.mallopt(_TRIM_THRESHOLD, -1)


def reuse_memory() -> None:
    """Calls `compute_in_caller` and `keep_freed_memory`, for commands that mostly embed."""
    compute_in_caller()
    keep_freed_memory()


def return_freed_memory() -> None:
    """Returns to the system the memory that was freed but kept so far."""
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
