"""Reads files of `torch.save`, in the zip format and the one before torch 1.6, without torch.

An archive of TorchScript, `torch.jit.save`, is read like the state dict of its module; the code in
it is not.
"""

import dataclasses
import io
import math
import zipfile
from collections.abc import Callable, Iterable, Mapping
from typing import Any, BinaryIO

import ml_dtypes
import numpy as np
from etils import epath

from xmodal.base.config import UserError
from xmodal.pretrained.pickles import ERRORS, Inert, Unpickler

SUFFIXES = (".pth", ".pt", ".pth.tar", ".ckpt")

# Damaged headers request methods, encryption and offsets that `zipfile` does not support.
_ZIP_ERRORS = (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError)

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
# Entries of lists and dicts that a file may refer to again; a tiny file can refer to billions.
_MOST_REPEATED = 1_000_000


@dataclasses.dataclass
class _Storage:
    """Numbers of one or several tensors; read after the objects that refer to them.

    `kind` is the name of a type of numbers that NumPy does not have.
    """

    dtype: np.dtype
    kind: str = ""
    values: np.ndarray | None = None


@dataclasses.dataclass(frozen=True)
class _Tensor:
    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def array(self) -> np.ndarray:
        values, size = self.storage.values, self.storage.dtype.itemsize
        steps = zip(self.shape, self.strides, strict=True)
        last = self.offset + sum((length - 1) * stride for length, stride in steps)
        if min((self.offset, *self.shape, *self.strides)) < 0:
            raise ValueError("a tensor has a negative size")
        if math.prod(self.shape) and last >= len(values):
            raise ValueError("a tensor has more numbers than the file")
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
    except (*ERRORS, *_ZIP_ERRORS) as error:
        raise UserError(
            f"{path} cannot be read as a file of torch.save ({error}): it is damaged, truncated, "
            "or from another program; download it again."
        ) from error


def read_torch(path: epath.Path) -> dict[str, np.ndarray]:
    """Returns all tensors of a file of `torch.save`.

    A tensor is named by the keys that lead to it, joined by periods: in a state dict its own name,
    in a checkpoint `{"model": state_dict}` that name after `model.`, in a list its position.

    Raises:
      UserError: see `read_objects`; or it has a module, or a tensor that is not a plain array.
    """
    arrays: dict[str, np.ndarray] = {}
    try:
        _collect(read_objects(path), "", arrays)
    except _NotAnArray as error:
        raise UserError(
            f"{path}: {error}, which cannot be read without torch. Load the file with torch, and "
            "save its numbers as dense real tensors: torch.save(model.state_dict(), ...)."
        ) from None
    return arrays


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


def _collect(value: Any, name: str, arrays: dict[str, np.ndarray]) -> None:
    if unread := _describe(value):
        raise _NotAnArray(f"{name or 'its content'} is {unread}")
    if isinstance(value, np.ndarray):
        if name in arrays:
            raise _NotAnArray(f"{name} is the name of two tensors")
        arrays[name] = value
    elif isinstance(value, (Mapping, list, tuple)):
        items = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, item in items:
            _collect(item, f"{name}.{key}" if name else str(key), arrays)


class _NotAnArray(Exception):
    """The message names an object and its kind."""


def _describe(value: Any) -> str:
    """Returns what an object is that holds numbers which are not collected; else nothing."""
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
    with zipfile.ZipFile(file) as archive:
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
    storages: dict[str, _Storage] = {}

    def load() -> Any:
        return _unpickler(file, storages).load()

    if load() != _MAGIC:
        raise ValueError("it does not start like one")
    load()  # Version of the protocol.
    if not load().get("little_endian", True):
        raise ValueError("its numbers are big-endian")
    objects = load()
    for key in load():
        count = int.from_bytes(file.read(8), "little")
        content = file.read(count * storages[key].dtype.itemsize)
        storages[key].values = np.frombuffer(content, storages[key].dtype)
    return objects


def _unpickler(file: BinaryIO, storages: dict[str, _Storage]) -> Unpickler:
    def find(pid: Any) -> Any:
        kind, dtype, key, *_ = pid
        if kind == "module":  # A class, with its source code.
            return dtype
        if kind != "storage":
            raise ValueError(f"it holds an unknown {kind!r}")
        # A view of another storage, which files from before 2018 may have, is not supported.
        if len(pid) > 5 and pid[5] is not None:
            raise ValueError("a storage is part of another")
        if isinstance(dtype, type) and issubclass(dtype, Inert):
            return storages.setdefault(key, _Storage(np.dtype(np.uint8), dtype.kind))
        return storages.setdefault(key, _Storage(np.dtype(dtype)))

    return Unpickler(file, _KNOWN, find)


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


def _unread(kind: str) -> Callable[..., _Unread]:
    return lambda *_: _Unread(kind)


_KNOWN: Mapping[tuple[str, str], Callable[..., Any]] = {
    ("torch._utils", "_rebuild_tensor"): _rebuild,
    ("torch._utils", "_rebuild_tensor_v2"): _rebuild,
    ("torch._utils", "_rebuild_parameter"): lambda tensor, *_: tensor,
    ("torch._utils", "_rebuild_parameter_with_state"): lambda tensor, *_: tensor,
    ("torch._tensor", "_rebuild_from_type_v2"): lambda make, kind, given, *_: make(*given),
    **{("torch._utils", name): _unread(kind) for name, kind in _UNREAD.items()},
    **{("torch", name): dtype for name, dtype in _DTYPES.items()},
}


class _Resolver:
    """Replaces tensors by their arrays, now that storages are read."""

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._repeated = 0

    def resolve(self, value: Any) -> Any:
        """Returns a copy with arrays; lists that a file refers to twice become two."""
        if isinstance(value, _Tensor):
            return value.array()
        if isinstance(value, Inert) and value.kind.startswith(_SCRIPTED):
            # The attributes of a scripted module: its tensors, and the modules in it.
            return self.resolve(value.state) if isinstance(value.state, Mapping) else value
        if not isinstance(value, (Mapping, list, tuple)):
            return value
        if id(value) in self._seen:
            self._repeated += 1 + len(value)
            if self._repeated > _MOST_REPEATED:
                raise ValueError(f"its lists repeat more than {_MOST_REPEATED:,} entries")
        self._seen.add(id(value))
        if isinstance(value, Mapping):
            return {key: self.resolve(item) for key, item in value.items()}
        return [self.resolve(item) for item in value]
