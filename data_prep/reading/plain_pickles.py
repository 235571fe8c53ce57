"""Reads pickles of plain data, without running any code.

A pickle may call any function of any module. Here, only the names that Python and NumPy write for
dicts, lists, strings, numbers and arrays are looked up.
"""

import pickle
import struct
from typing import Any, BinaryIO

_ARRAYS = ("numpy.core.multiarray", "numpy._core.multiarray")
_BUFFERS = ("numpy.core.numeric", "numpy._core.numeric")
_ALLOWED = {
    *((module, name) for module in _ARRAYS for name in ("_reconstruct", "scalar")),
    *((module, "_frombuffer") for module in _BUFFERS),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("_codecs", "encode"),
    ("collections", "OrderedDict"),
}
# Errors that the unpickler raises for damaged pickles.
DAMAGE = (
    pickle.UnpicklingError,
    EOFError,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    OverflowError,
    MemoryError,
    SystemError,
    struct.error,
)


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it requests {module}.{name}")
        return super().find_class(module, name)


def load_plain(file: BinaryIO) -> Any:
    """Reads a pickle of plain data; non-Unicode strings of Python 2 become bytes.

    Raises:
      Exception: one of `DAMAGE`; the pickle is truncated, damaged, or requests anything else.
    """
    return _Unpickler(file, encoding="bytes").load()
