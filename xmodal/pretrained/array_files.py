"""Files of named arrays: safetensors, Keras, NumPy and torch."""

import io
import zipfile
from collections.abc import Callable, Mapping
from typing import BinaryIO

import h5py
import ml_dtypes
import numpy as np
import safetensors
from etils import epath

from xmodal.core.errors import UserError
from xmodal.core.untrusted.archives import ZIP_ERRORS, open_zip
from xmodal.core.untrusted.hdf5 import HDF5_ERRORS, Hdf5File
from xmodal.core.untrusted.json_text import parse_json_text
from xmodal.core.untrusted.saved_arrays import DAMAGE, load_arrays
from xmodal.pretrained import torch_files

_DAMAGED = "it is damaged or truncated; download it again"
_SAFETENSORS_DTYPES = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "I64": np.int64,
    "I32": np.int32,
    "I16": np.int16,
    "I8": np.int8,
    "U8": np.uint8,
    "BOOL": np.bool_,
}


def read_safetensors(path: epath.Path) -> dict[str, np.ndarray]:
    """Returns all tensors of a .safetensors file.

    Raises:
      UserError: it is damaged, or a tensor has a type that NumPy lacks.
    """
    try:
        tensors = safetensors.deserialize(path.read_bytes())
    except safetensors.SafetensorError as error:
        raise UserError(f"{path} cannot be read ({error}): {_DAMAGED}.") from error
    arrays = {}
    for name, tensor in tensors:
        if tensor["dtype"] not in _SAFETENSORS_DTYPES:
            raise UserError(
                f"{path}: {name} is {tensor['dtype']}; known: {', '.join(_SAFETENSORS_DTYPES)}."
            )
        values = np.frombuffer(tensor["data"], _SAFETENSORS_DTYPES[tensor["dtype"]])
        try:
            arrays[name] = values.reshape(tensor["shape"])
        except ValueError as error:  # More dimensions than NumPy has.
            raise UserError(f"{path}: {name} cannot be read ({error}): {_DAMAGED}.") from error
    return arrays


def check_safetensors(path: epath.Path) -> None:
    """Compares the size of a .safetensors file with the size in its header; reads no tensor.

    Raises:
      UserError: the file is truncated or not a .safetensors file.
    """
    size = path.stat().length
    try:
        with path.open("rb") as file:
            start = 8 + int.from_bytes(file.read(8), "little")
            if start > size:
                raise ValueError(f"its header should have {start:,} of its {size:,} bytes")
            header = parse_json_text(file.read(start - 8))
        tensors = [entry for name, entry in header.items() if name != "__metadata__"]
        expected = start + max((entry["data_offsets"][1] for entry in tensors), default=0)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise UserError(f"{path} cannot be read ({error}): {_DAMAGED}.") from error
    if size != expected:
        raise UserError(f"{path} has {size:,} bytes instead of {expected:,}: {_DAMAGED}.")


def read_npz(path: epath.Path) -> dict[str, np.ndarray]:
    """Returns all arrays of a .npz file.

    Raises:
      UserError: it is damaged.
    """
    try:
        with path.open("rb") as file:
            if not zipfile.is_zipfile(file):
                raise ValueError("it is not an archive")
            file.seek(0)
            with load_arrays(file) as arrays:
                return {name: _with_bfloat16(array) for name, array in arrays.items()}
    except DAMAGE as error:
        raise UserError(f"{path} cannot be read ({error}): {_DAMAGED}.") from error


def _with_bfloat16(array: np.ndarray) -> np.ndarray:
    # NumPy stores the type as two bytes without a meaning; big_vision's files have it.
    return array.view(ml_dtypes.bfloat16) if array.dtype == np.dtype("V2") else array


def read_keras(path: epath.Path) -> dict[str, np.ndarray]:
    """Returns all variables of a `.keras` archive.

    Raises:
      UserError: it is damaged.
    """
    try:
        with path.open("rb") as file, open_zip(file) as archive:
            weights = io.BytesIO(archive.read("model.weights.h5"))
    except (KeyError, ValueError, OSError, *ZIP_ERRORS) as error:
        raise UserError(f"{path} cannot be read ({error}): {_DAMAGED}.") from error
    return _read_h5(path, weights)


def read_h5(path: epath.Path) -> dict[str, np.ndarray]:
    """Returns the variables of a Keras `.h5` or `.weights.h5` file, without optimizer state.

    Raises:
      UserError: it is damaged.
    """
    with path.open("rb") as file:
        return _read_h5(path, file)


def _read_h5(path: epath.Path, file: BinaryIO) -> dict[str, np.ndarray]:
    try:
        with Hdf5File(file) as opened:
            tree = opened.root.get("model_weights", opened.root)
            long: dict[str, np.ndarray] = {}
            short: dict[str, str] = {}
            _walk(opened, tree, "", [], long, short)
    except HDF5_ERRORS as error:
        raise UserError(f"{path} cannot be read ({error}): {_DAMAGED}.") from error
    names = list(short.values())
    unique = len(set(names)) == len(names)
    return {short[name] if unique else name: array for name, array in long.items()}


def _walk(
    file: Hdf5File,
    group: h5py.Group,
    path: str,
    layers: list[str],
    long: dict[str, np.ndarray],
    short: dict[str, str],
) -> None:
    for key, child in file.children(group):
        name = f"{path}/{key}" if path else key
        if key.startswith("optimizer"):
            continue
        if isinstance(child, h5py.Group):
            # Keras 3 keeps a layer's variables in LAYER_CLASS_3/vars and its name in an attribute.
            layer = child.attrs.get("name", key) if key == "vars" else key
            _walk(file, child, name, [*layers, str(layer)], long, short)
        else:
            long[name] = file.read_once(child)
            variable = key.removesuffix(":0")
            # conv1/conv1/kernel:0 -> conv1/kernel; layers/conv2d/vars/0 -> its layer's name/0.
            short[name] = f"{layers[-1]}/{variable}" if layers else variable


READERS: Mapping[str, Callable[[epath.Path], dict[str, np.ndarray]]] = {
    ".safetensors": read_safetensors,
    ".npz": read_npz,
    ".keras": read_keras,
    ".h5": read_h5,
    ".hdf5": read_h5,
    **{suffix: torch_files.read_torch for suffix in (*torch_files.SUFFIXES, ".bin")},
}
"""Readers by the end of the file name."""
