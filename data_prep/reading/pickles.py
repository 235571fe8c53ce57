"""Reads pickles of plain data, without running any code.

A pickle may call any function of any module. Here only the names that Python and numpy write for
dicts, lists, texts, numbers and arrays are looked up.
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
# Damaged pickles make the machine of the unpickler stumble in all these ways.
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
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return super().find_class(module, name)


def load_plain(file: BinaryIO) -> Any:
    """Reads a pickle of plain data; texts of Python 2 that were no Unicode are bytes.

    Raises:
      Exception: one of `DAMAGE`; the pickle is cut off, damaged, or asks for anything else.
    """
    return _Unpickler(file, encoding="bytes").load()
