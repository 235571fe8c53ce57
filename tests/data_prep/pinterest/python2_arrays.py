"""Writes object arrays like NumPy under Python 2: protocol 2, with plain texts as byte strings."""

import pickle
import struct
from typing import ClassVar

import numpy as np


class _Python2Pickler(pickle._Pickler):
    dispatch: ClassVar = dict(pickle._Pickler.dispatch)

    def save_bytes(self, text):
        short = (
            b"U" + bytes([len(text)]) if len(text) < 256 else b"T" + struct.pack("<i", len(text))
        )
        self.write(short + text)
        self.memoize(text)

    def save_text(self, text):
        # String literals were byte strings; texts in other languages are Unicode.
        if text.isascii():
            self.save_bytes(text.encode())
        else:
            pickle._Pickler.save_str(self, text)

    dispatch[bytes] = save_bytes
    dispatch[str] = save_text


def write(path, objects):
    """Writes a list of plain objects as a one-dimensional array, with NumPy's old module names."""
    array = np.empty(len(objects), object)
    array[:] = objects
    with path.open("wb") as file:
        header = np.lib.format.header_data_from_array_1_0(array)
        np.lib.format.write_array_header_1_0(file, header)
        at = file.tell()
        _Python2Pickler(file, protocol=2).dump(array)
    data = path.read_bytes()
    path.write_bytes(data[:at] + data[at:].replace(b"numpy._core.", b"numpy.core."))
