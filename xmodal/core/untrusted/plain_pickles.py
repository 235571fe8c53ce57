"""Reads pickles of plain data: containers, numbers, strings and NumPy's arrays of numbers.

Arrays are rebuilt here from their bytes; a pickle calls no function of NumPy.
"""

import io
import math
import pickle
import re
from typing import Any, BinaryIO

import numpy as np

from xmodal.core.untrusted.pickles import ERRORS, KnownFunction, Resolver, StandIn, Unpickler

DAMAGE = ERRORS
"""Errors that `load_plain` raises."""

# As NumPy names them in pickles: without byte order, and not objects, records or dates.
_NUMBERS = re.compile(r"[biufcSU]\d{1,6}")
_OBJECTS = "O8"
_ORDERS = {
    mark: each.decode() for each in (b"<", b">", b"|", b"=") for mark in (each, each.decode())
}
_NDARRAY = object()


def load_plain(file: BinaryIO) -> Any:
    """Reads a pickle of plain data; non-Unicode strings of Python 2 become bytes.

    Arrays are read-only; a one-dimensional array of objects becomes a list.

    Raises:
      Exception: one of `DAMAGE`; the pickle is truncated, damaged, or requests anything else.
    """
    content = file.read()
    return Resolver(len(content)).resolve(_PlainUnpickler(content).load())


class _PlainUnpickler(Unpickler):
    def __init__(self, content: bytes) -> None:
        known = _KNOWN | {("_codecs", "encode"): KnownFunction(self._encode)}
        super().__init__(io.BytesIO(content), known, encoding="bytes")

    def _encode(self, text: str, *_: Any) -> bytes:
        """Returns bytes that Python 3 wrote for Python 2."""
        self.spend(len(text))
        return text.encode("latin-1")

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._known:
            raise pickle.UnpicklingError(f"it requests {module}.{name}")
        return super().find_class(module, name)


class _Dtype(StandIn):
    def __init__(self, name: str) -> None:
        self.name = name

    def value(self) -> np.dtype:
        # (version, byte order, subarray, field names, fields, ...), of plain types 3 and four None.
        _, order, *parts = self.state or (3, "|", None, None, None)
        if self.name == _OBJECTS or any(part is not None for part in parts[:3]):
            raise ValueError(f"an array of {self.name} in place of numbers")
        if not isinstance(order, (str, bytes)) or order not in _ORDERS:
            raise ValueError("an unknown byte order")
        return np.dtype(_ORDERS[order] + self.name)


class _Array(StandIn):
    """An array whose state is (version, shape, dtype, is Fortran's order, bytes or objects)."""

    def value(self) -> Any:
        _, shape, dtype, is_fortran, content = self.state
        if not isinstance(dtype, _Dtype):
            raise TypeError(f"a {type(dtype).__name__} in place of a dtype")
        if dtype.name == _OBJECTS and isinstance(content, list):
            if shape != (len(content),):
                raise ValueError(f"{len(content)} objects in an array of another shape")
            return content
        kind = dtype.value()
        if not isinstance(content, (bytes, bytearray)) or not all(n >= 0 for n in shape):
            raise TypeError(f"a {type(content).__name__} in place of an array's bytes")
        if math.prod(shape) * kind.itemsize != len(content):
            raise ValueError(f"{len(content):,} bytes in an array {shape!r:.60} of {kind}")
        array = np.frombuffer(bytes(content), kind).astype(kind.newbyteorder("="), copy=False)
        return array.reshape(shape, order="F" if is_fortran else "C")


class _Scalar(_Array):
    def value(self) -> Any:
        return super().value()[()]


def _dtype(name: Any, *_: Any) -> _Dtype:
    text = _text(name)
    if text != _OBJECTS and not _NUMBERS.fullmatch(text):
        raise pickle.UnpicklingError(f"an array of {text:.20} in place of numbers")
    return _Dtype(text)


def _reconstruct(kind: Any, *_: Any) -> _Array:
    if kind is not _NDARRAY:
        raise pickle.UnpicklingError("it requests an array of another class")
    return _Array()


def _from_buffer(content: Any, dtype: Any, shape: Any, order: Any) -> _Array:
    array = _Array()
    array.state = (1, shape, dtype, order == "F", content)
    return array


def _scalar(dtype: Any, content: Any = b"") -> _Scalar:
    scalar = _Scalar()
    scalar.state = (1, (), dtype, False, content)
    return scalar


def _text(name: Any) -> str:
    text = name.decode() if isinstance(name, bytes) else name
    if not isinstance(text, str):
        raise pickle.UnpicklingError(f"a {type(name).__name__} in place of a name")
    return text


_KNOWN: dict[tuple[str, str], Any] = {
    **{
        (f"numpy.{core}.{module}", name): KnownFunction(function)
        for core in ("core", "_core")
        for module, name, function in (
            ("multiarray", "_reconstruct", _reconstruct),
            ("multiarray", "scalar", _scalar),
            ("numeric", "_frombuffer", _from_buffer),
        )
    },
    ("numpy", "ndarray"): _NDARRAY,
    ("numpy", "dtype"): KnownFunction(_dtype),
    ("__builtin__", "bytes"): KnownFunction(lambda: b""),  # No bytes, for Python 2.
}
