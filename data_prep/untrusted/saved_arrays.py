"""NumPy's files from elsewhere."""

import os
import struct
import tokenize
import zipfile
import zlib
from typing import IO, Any

import numpy as np

from data_prep.untrusted.archives import open_zip

# RuntimeError: a flag of the archive; TokenError: a header; MemoryError: a shape in it.
DAMAGE = (
    AssertionError,
    EOFError,
    LookupError,
    MemoryError,
    OSError,
    OverflowError,
    RuntimeError,
    TypeError,
    ValueError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What NumPy raises when bytes of an npy or npz file are damaged or missing."""


def load_arrays(source: str | os.PathLike | IO[bytes], mmap_mode: Any = None) -> Any:
    """Returns what `numpy.load` does, without pickled objects.

    Args:
      source: path or open file of an npy or npz file.
      mmap_mode: see `numpy.load`.

    Raises:
      Exception: one of `DAMAGE`; also if an npz expands too far.
    """
    if isinstance(source, (str, os.PathLike)):
        with open(source, "rb") as file:
            is_zip = file.read(2) == b"PK"
    else:
        is_zip = source.read(2) == b"PK"
        source.seek(0)
    if is_zip:
        with open_zip(source):
            pass
        if not isinstance(source, (str, os.PathLike)):
            source.seek(0)
    return np.load(source, mmap_mode=mmap_mode, allow_pickle=False)
