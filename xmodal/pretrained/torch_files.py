"""Reads files of `torch.save`, in the zip format and the one before torch 1.6, without torch.

An archive of TorchScript, `torch.jit.save`, is read like the state dict of its module; the code in
it is not.
"""

import dataclasses
import io
import math
import reprlib
from collections.abc import Collection, Iterable, Mapping
from typing import Any, BinaryIO

import ml_dtypes
import numpy as np
from etils import epath

from xmodal.core.errors import UserError
from xmodal.core.untrusted.archives import ZIP_ERRORS, open_zip
from xmodal.core.untrusted.pickles import ERRORS, Inert, KnownFunction, Resolver, StandIn, Unpickler

SUFFIXES = (".pth", ".pt", ".pth.tar", ".ckpt")


_MAGIC = 0x1950A86A20F9469CFC6C
_DTYPES = {
    "DoubleStorage": np.float64,
    "FloatStorage": np.float32,
    "HalfStorage": np.float16,
    "BFloat16Storage": ml_dtypes.bfloat16,
    "LongStorage": np.int64,
    "IntStorage": np.int32,
    "ShortStorage": np.int16,
    "CharStorage": np.int8,
    "ByteStorage": np.uint8,
    "BoolStorage": np.bool_,
    "ComplexFloatStorage": np.complex64,
    "ComplexDoubleStorage": np.complex128,
    "QInt8Storage": np.int8,
    "QUInt8Storage": np.uint8,
    "QInt32Storage": np.int32,
}
# Functions that rebuild tensors which are not arrays.
_UNREAD = {
    "_rebuild_sparse_tensor": "a sparse tensor",
    "_rebuild_sparse_csr_tensor": "a sparse tensor",
    "_rebuild_qtensor": "a quantized tensor",
    "_rebuild_nested_tensor": "a nested tensor",
    "_rebuild_meta_tensor_no_storage": "a tensor without numbers",
    "_rebuild_tensor_v3": "a tensor of 8-bit floating-point or unsigned numbers",
}
_MODULES = ("torch.nn.", "__torch__.")
_SCRIPTED = "__torch__."
_NAMESPACE = "argparse.Namespace"
# Numbers, or entries of lists and dicts, that a file may refer to again; a tiny file can refer to
# billions.
_MOST_REPEATED = 1_000_000
_LONGEST_NAME = 10_000  # A long key in nested dicts makes a name of their sum.


@dataclasses.dataclass
class _Storage:
    """Numbers of one or several tensors; read after the objects that refer to them.

    `kind` is the name of a type of numbers that NumPy does not have.
    """

    dtype: np.dtype
    kind: str = ""
    values: np.ndarray | None = None


@dataclasses.dataclass(eq=False)
class _Tensor(StandIn):
    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def value(self) -> np.ndarray:
        values, size = self.storage.values, self.storage.dtype.itemsize
        steps = zip(self.shape, self.strides, strict=True)
        last = self.offset + sum((length - 1) * stride for length, stride in steps)
        if min((self.offset, *self.shape, *self.strides)) < 0:
            raise ValueError("a tensor has a negative size")
        if math.prod(self.shape) and last >= len(values):
            raise ValueError("a tensor has more numbers than the file")
        if math.prod(self.shape) - len(values) > _MOST_REPEATED:
            raise ValueError(f"a tensor repeats more than {_MOST_REPEATED:,} numbers")
        strides = [stride * size for stride in self.strides]
        return np.lib.stride_tricks.as_strided(
            values[self.offset :], self.shape, strides, writeable=False
        )


@dataclasses.dataclass(frozen=True)
class _Unread:
    """A tensor that has no equal array, such as a sparse one, and its kind."""

    kind: str


def read_objects(path: epath.Path) -> Any:
    """Returns the object in a file of `torch.save`, with NumPy arrays instead of tensors.

    Objects of classes other than containers, numbers, strings and tensors are `pickles.Inert`.

    Raises:
      UserError: the file was not written by `torch.save` or `torch.jit.save`, or is damaged.
    """
    try:
        with path.open("rb") as file:
            is_zip = file.read(4) == b"PK\x03\x04"
            file.seek(0)
            return _Resolver().resolve((_read_zip if is_zip else _read_legacy)(file))
    except (*ERRORS, *ZIP_ERRORS, OSError) as error:
        raise _damaged(path, error) from error


def read_torch(path: epath.Path) -> dict[str, np.ndarray]:
    """Returns all tensors of a file of `torch.save`.

    A tensor is named by the keys that lead to it, joined by periods: in a state dict its own name,
    in a checkpoint `{"model": state_dict}` that name after `model.`, in a list its position.

    Raises:
      UserError: see `read_objects`; or it has a module, or a tensor that is not a plain array.
    """
    objects, collector = read_objects(path), _Collector()
    try:
        collector.collect(objects, "")
    except ERRORS as error:
        raise _damaged(path, error) from error
    except _NotAnArray as error:
        raise UserError(
            f"{path}: {error}, which cannot be read without torch. Load the file with torch, and "
            "save its numbers as dense real tensors: torch.save(model.state_dict(), ...)."
        ) from None
    return collector.arrays


def _damaged(path: epath.Path, error: Exception) -> UserError:
    return UserError(
        f"{path} cannot be read as a file of torch.save ({error}): it is damaged, truncated, or "
        "from another program; download it again."
    )


def is_torch(path: epath.Path) -> bool:
    """Returns whether a path is a torch checkpoint, and not the start of a TensorFlow one's."""
    return path.name.endswith(SUFFIXES) and path.exists()


def read_options(path: epath.Path) -> Mapping[str, Any]:
    """Returns a checkpoint's training options, its `opt`; empty if it has none."""
    if not is_torch(path):
        return {}
    objects = read_objects(path)
    options = objects.get("opt") if isinstance(objects, Mapping) else None
    fields = options.state if isinstance(options, Inert) else options
    return fields if isinstance(fields, Mapping) else {}


def read_arguments(path: epath.Path) -> Mapping[str, Any]:
    """Returns the attributes of an `argparse.Namespace` in a file of `torch.save`.

    Values of other classes are `pickles.Inert`, like those of any file.

    Raises:
      UserError: see `read_objects`; or it holds anything else.
    """
    found = read_objects(path)
    if isinstance(found, Inert) and found.kind == _NAMESPACE and isinstance(found.state, Mapping):
        return found.state
    kind = found.kind if isinstance(found, Inert) else type(found).__name__
    raise UserError(
        f"{path} has an object of the class {kind:.80}, not the attributes of an {_NAMESPACE}: it "
        "is damaged, or from another program; get it again from where the weights are."
    )


class _Collector:
    """The arrays in nested containers, by the keys that lead to them."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self._seen: set[int] = set()
        self._repeated = 0

    def collect(self, value: Any, name: str) -> None:
        """Adds the arrays in an object under a name."""
        if len(name) > _LONGEST_NAME:
            raise ValueError(f"a name has more than {_LONGEST_NAME:,} characters")
        if unread := _describe(value):
            raise _NotAnArray(f"{name or 'its content'} is {unread}")
        if isinstance(value, np.ndarray):
            if name in self.arrays:
                raise _NotAnArray(f"{name} is the name of two tensors")
            self.arrays[name] = value
        elif isinstance(value, (Mapping, list, tuple)):
            self._count(value)
            items = value.items() if isinstance(value, Mapping) else enumerate(value)
            for key, item in items:
                self.collect(item, f"{name}.{key}" if name else str(key))

    def _count(self, value: Collection[Any]) -> None:
        if id(value) in self._seen:
            self._repeated += 1 + len(value)
            if self._repeated > _MOST_REPEATED:
                raise ValueError(f"its lists repeat more than {_MOST_REPEATED:,} entries")
        self._seen.add(id(value))


class _NotAnArray(Exception):
    """The message names an object and its kind."""


def _describe(value: Any) -> str:
    """Returns the kind of an object with numbers that are not collected; "" for others."""
    if isinstance(value, _Unread):
        return value.kind
    if isinstance(value, np.ndarray) and np.iscomplexobj(value):
        return "a complex tensor"
    if isinstance(value, Inert):
        fields = value.state if isinstance(value.state, Mapping) else {}
        if value.kind.startswith(_MODULES) or {"_parameters", "_modules"} <= set(fields):
            return f"a whole module ({value.kind})"
        if _holds_tensor(value.contents):
            return f"an object of the class {value.kind} with tensors"
    return ""


def _holds_tensor(contents: Iterable[Any], depth: int = 1) -> bool:
    """Whether there is a tensor among objects or in containers among them."""
    return any(
        isinstance(each, (_Tensor, _Unread))
        or (
            depth > 0
            and isinstance(each, (Mapping, list, tuple))
            and _holds_tensor(each.values() if isinstance(each, Mapping) else each, depth - 1)
        )
        for each in contents
    )


def _read_zip(file: BinaryIO) -> Any:
    with open_zip(file) as archive:
        names = archive.namelist()
        root = next((name for name in names if name.endswith("data.pkl")), None)
        if root is None:
            raise ValueError("the archive has no data.pkl")
        folder = root.removesuffix("data.pkl")
        order = f"{folder}byteorder"
        if order in names and archive.read(order) != b"little":
            raise ValueError("its numbers are big-endian")
        storages: dict[str, _Storage] = {}
        objects = _unpickler(io.BytesIO(archive.read(root)), storages).load()
        for key, storage in storages.items():
            storage.values = np.frombuffer(archive.read(f"{folder}data/{key}"), storage.dtype)
    return objects


def _read_legacy(file: BinaryIO) -> Any:
    content, storages = io.BytesIO(file.read()), dict[str, _Storage]()

    def load() -> Any:
        return _unpickler(content, storages).load()

    if load() != _MAGIC:
        raise ValueError("it does not start like one")
    load()  # Version of the protocol.
    if not load().get("little_endian", True):
        raise ValueError("its numbers are big-endian")
    objects, keys = load(), load()
    start, numbers = content.tell(), content.getbuffer()
    for key in keys:
        dtype = storages[_checked_key(key)].dtype
        count = int.from_bytes(numbers[start : start + 8], "little")
        storages[key].values = np.frombuffer(numbers, dtype, count, start + 8)
        start += 8 + count * dtype.itemsize
    return objects


def _unpickler(file: io.BytesIO, storages: dict[str, _Storage]) -> Unpickler:
    def find(pid: Any) -> Any:
        kind, dtype, key, *_ = pid
        if kind == "module":  # A class, with its source code.
            return dtype
        if kind != "storage":
            raise ValueError(f"it holds an unknown {reprlib.repr(kind)}")
        # A view of another storage, which files from before 2018 may have, is not supported.
        if len(pid) > 5 and pid[5] is not None:
            raise ValueError("a storage is part of another")
        if isinstance(dtype, type) and issubclass(dtype, Inert):
            return storages.setdefault(_checked_key(key), _Storage(np.dtype(np.uint8), dtype.kind))
        if not isinstance(dtype, np.dtype):
            raise TypeError(f"a storage of a {type(dtype).__name__}")
        return storages.setdefault(_checked_key(key), _Storage(dtype))

    return Unpickler(file, _KNOWN, find)


def _checked_key(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"a {type(key).__name__} in place of a storage's name")
    return key


def _rebuild(
    storage: _Storage,
    offset: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    requires_grad: bool = False,
    hooks: Any = None,
    metadata: Any = None,
    *_: Any,
) -> _Tensor | _Unread:
    del requires_grad, hooks
    if storage.kind:
        return _Unread(f"a tensor of {storage.kind}")
    if metadata:
        return _Unread("a conjugate or negative view")
    return _Tensor(storage, offset, tuple(shape), tuple(strides))


def _unread(kind: str) -> KnownFunction:
    return KnownFunction(lambda *_: _Unread(kind))


_KNOWN: Mapping[tuple[str, str], Any] = {
    ("torch._utils", "_rebuild_tensor"): KnownFunction(_rebuild),
    ("torch._utils", "_rebuild_tensor_v2"): KnownFunction(_rebuild),
    ("torch._utils", "_rebuild_parameter"): KnownFunction(lambda tensor, *_: tensor),
    ("torch._utils", "_rebuild_parameter_with_state"): KnownFunction(lambda tensor, *_: tensor),
    ("torch._tensor", "_rebuild_from_type_v2"): KnownFunction(
        lambda make, kind, given, *_: make(*given)
    ),
    **{("torch._utils", name): _unread(kind) for name, kind in _UNREAD.items()},
    **{("torch", name): np.dtype(kind) for name, kind in _DTYPES.items()},
}


class _Resolver(Resolver):
    """Also takes scripted modules for dicts of their tensors and of the modules in them."""

    def resolve(self, value: Any) -> Any:
        if isinstance(value, Inert) and value.kind.startswith(_SCRIPTED):
            return self.resolve(value.state) if isinstance(value.state, Mapping) else value
        return super().resolve(value)
