"""Reads files of `torch.save`, in the zip format and the one before torch 1.6, without torch."""

import dataclasses
import io
import math
import zipfile
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

import ml_dtypes
import numpy as np
from etils import epath

from xmodal.base.config import UserError
from xmodal.pretrained.pickles import ERRORS, Inert, Unpickler

SUFFIXES = (".pth", ".pt", ".pth.tar")

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
}


@dataclasses.dataclass
class _Storage:
    """Numbers of one or several tensors; read after the objects that refer to them."""

    dtype: np.dtype
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


def read_objects(path: epath.Path) -> Any:
    """Returns the object in a file of `torch.save`, with NumPy arrays instead of tensors.

    Objects of classes other than containers, numbers, strings and tensors are `pickles.Inert`.

    Raises:
      UserError: the file was not written by `torch.save`, or is damaged.
    """
    try:
        with path.open("rb") as file:
            is_zip = file.read(4) == b"PK\x03\x04"
            file.seek(0)
            return _resolve((_read_zip if is_zip else _read_legacy)(file))
    except (*ERRORS, *_ZIP_ERRORS) as error:
        raise UserError(
            f"{path} cannot be read as a file of torch.save ({error}): it is damaged, truncated, "
            "or from another program; download it again."
        ) from error


def read_torch(path: epath.Path) -> dict[str, np.ndarray]:
    """Returns all tensors of a file of `torch.save`.

    A tensor is named by the keys that lead to it, joined by periods: in a state dict its own name,
    in a checkpoint `{"model": state_dict}` that name after `model.`, in a list its position.
    """
    arrays: dict[str, np.ndarray] = {}
    _collect(read_objects(path), "", arrays)
    return arrays


def read_options(path: epath.Path) -> Mapping[str, Any]:
    """Returns a checkpoint's training options, its `opt`; empty if it has none."""
    if not path.name.endswith(SUFFIXES):
        return {}
    objects = read_objects(path)
    options = objects.get("opt") if isinstance(objects, Mapping) else None
    fields = options.state if isinstance(options, Inert) else options
    return fields if isinstance(fields, Mapping) else {}


def _collect(value: Any, name: str, arrays: dict[str, np.ndarray]) -> None:
    if isinstance(value, np.ndarray):
        arrays[name] = value
    elif isinstance(value, (Mapping, list, tuple)):
        items = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, item in items:
            _collect(item, f"{name}.{key}" if name else str(key), arrays)


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
    def find(pid: Any) -> _Storage:
        kind, dtype, key, *_ = pid
        if kind != "storage":
            raise ValueError(f"it holds an unknown {kind!r}")
        # A view of another storage, which files from before 2018 may have, is not supported.
        if len(pid) > 5 and pid[5] is not None:
            raise ValueError("a storage is part of another")
        return storages.setdefault(key, _Storage(np.dtype(dtype)))

    return Unpickler(file, _KNOWN, find)


def _rebuild(
    storage: _Storage, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], *_: Any
) -> _Tensor:
    return _Tensor(storage, offset, tuple(shape), tuple(strides))


_KNOWN: Mapping[tuple[str, str], Callable[..., Any]] = {
    ("torch._utils", "_rebuild_tensor"): _rebuild,
    ("torch._utils", "_rebuild_tensor_v2"): _rebuild,
    ("torch._utils", "_rebuild_parameter"): lambda tensor, *_: tensor,
    **{("torch", name): dtype for name, dtype in _DTYPES.items()},
}


def _resolve(value: Any) -> Any:
    if isinstance(value, _Tensor):
        return value.array()
    if isinstance(value, Mapping):
        return {key: _resolve(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_resolve(item) for item in value]
    return value
