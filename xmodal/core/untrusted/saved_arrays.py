"""NumPy's files from elsewhere."""

import os
import struct
import tokenize
import zipfile
import zlib
from typing import IO, Any

import numpy as np

from xmodal.core.untrusted.archives import open_zip

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
    """Returns the result of `numpy.load`, without pickled objects.

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
        if isinstance(source, (str, os.PathLike)):
            return _Arrays(open(source, "rb"), own_fid=True, allow_pickle=False)
        source.seek(0)
        return _Arrays(source, allow_pickle=False)
    return np.load(source, mmap_mode=mmap_mode, allow_pickle=False)


class _Arrays(np.lib.npyio.NpzFile):
    """The arrays of an npz file; NumPy's class returns the bytes of a member that is none."""

    def __getitem__(self, key: str) -> np.ndarray:
        found = super().__getitem__(key)
        if not isinstance(found, np.ndarray):
            raise ValueError(f"{key!r} in it is no array")
        return found
