"""Unpickles plain data: containers, numbers, texts, and arrays of NumPy and torch.

No code in a pickle runs: every other class or function that it names becomes a class `Inert`. The
module can be the `pickle_module` of `torch.load`.
"""

import importlib
import io
import pickle
from collections.abc import Iterable
from typing import Any, BinaryIO

DAMAGE = (
    pickle.UnpicklingError, ArithmeticError, AttributeError, EOFError, ImportError, LookupError,
    TypeError, ValueError,
)  # fmt: skip
"""Errors that damaged or foreign pickles raise."""

_NUMPY = tuple(f"numpy.{core}.{name}" for core in ("core", "_core") for name in (
    "multiarray._reconstruct", "multiarray.scalar", "numeric._frombuffer",
))  # fmt: skip
_BUILTINS = ("set", "frozenset", "bytes", "bytearray", "dict", "list", "tuple", "complex")
_TENSORS = ("tensor", "tensor_v2", "parameter", "parameter_with_state", "sparse_tensor")
_KNOWN = {
    "collections.OrderedDict", "collections.defaultdict", "_codecs.encode", "numpy.dtype",
    "numpy.ndarray", "torch.Size", "torch._tensor._rebuild_from_type_v2", "torch.Tensor", *_NUMPY,
    *(f"{module}.{name}" for module in ("builtins", "__builtin__") for name in _BUILTINS),
    *(f"torch._utils._rebuild_{kind}" for kind in _TENSORS),
}  # fmt: skip


class Inert:
    """An object of a class that is not loaded.

    Attributes:
      kind: the class, `MODULE.NAME`.
      state: the pickled state; a dict of attributes for most classes.
    """

    kind: str = ""
    state: Any = None

    def __init__(self, *args: object, **keywords: object) -> None:
        """Ignores the arguments of a call."""

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def __setitem__(self, key: object, value: object) -> None:
        """Ignores the items of a subclass of dict."""

    def extend(self, items: Iterable[object]) -> None:
        """Ignores the items of a subclass of list."""

    append = extend


class Unpickler(pickle.Unpickler):
    """Loads plain data, and other objects as `Inert`."""

    def find_class(self, module: str, name: str) -> Any:
        """Returns what the pickle names if it is known."""
        if f"{module}.{name}" in _KNOWN:
            return getattr(importlib.import_module(module.replace("__builtin__", "builtins")), name)
        return type("Inert", (Inert,), {"kind": f"{module}.{name}"})


def load(file: BinaryIO, **options: Any) -> Any:
    """Returns the object in a pickle; see `pickle.load`.

    Raises:
      Exception: one of `DAMAGE`.
    """
    return Unpickler(file, **options).load()


def loads(content: bytes, **options: Any) -> Any:
    """Returns the object in the bytes of a pickle; see `load`."""
    return load(io.BytesIO(content), **options)
