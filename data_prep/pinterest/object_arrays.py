"""Reads arrays of Python objects that numpy pickled under Python 2, without running any code.

A pickle may call any function of any module, so that numpy refuses such files by default. Here only
the names that numpy itself writes for arrays of dicts, lists, texts and numbers are looked up.
"""

import pathlib
import pickle
import struct
from typing import Any

import numpy as np

from data_prep.errors import UnexpectedFilesError

_ALLOWED = {
    (module, name)
    for core in ("numpy.core.multiarray", "numpy._core.multiarray")
    for module, name in ((core, "_reconstruct"), (core, "scalar"))
} | {("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode")}
# Damaged pickles make the machine of the unpickler stumble in all these ways.
_DAMAGE = (
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


def read_objects(path: pathlib.Path) -> list[Any]:
    """Reads an .npy file that holds a one-dimensional array of objects.

    Args:
      path: the file.

    Returns:
      The objects. Texts that were no Unicode are bytes.

    Raises:
      FileNotFoundError: there is no such file.
      UnexpectedFilesError: it is cut off, or no such array, or its pickle asks for anything else.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist")
    try:
        with path.open("rb") as file:
            version = np.lib.format.read_magic(file)
            if version != (1, 0):
                raise ValueError(f"format {version} instead of (1, 0)")
            shape, _, dtype = np.lib.format.read_array_header_1_0(file)
            if not dtype.hasobject:
                raise ValueError(f"an array of {dtype}, not of objects")
            array = _Unpickler(file, encoding="bytes").load()
        if not isinstance(array, np.ndarray) or array.shape != shape or array.ndim != 1:
            raise ValueError(f"no array of the shape {shape} that its header names")
    except _DAMAGE as error:
        raise UnexpectedFilesError(
            f"{path} is cut off, or not the array of objects that was published: {error}"
        ) from error
    return array.tolist()
