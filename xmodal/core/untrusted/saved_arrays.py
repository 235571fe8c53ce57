"""NumPy's files from elsewhere."""

import zipfile
import zlib
from typing import Any

import numpy as np

DAMAGE = (
    EOFError, LookupError, OSError, RuntimeError, TypeError, ValueError, zipfile.BadZipFile,
    zlib.error,
)  # fmt: skip
"""What NumPy raises for npy and npz files that are damaged or hold pickled objects."""


def load_arrays(source: Any, mmap_mode: Any = None) -> Any:
    """Returns the result of `numpy.load`, without pickled objects."""
    return np.load(source, mmap_mode=mmap_mode, allow_pickle=False)
