"""Files of `torch.save` and `torch.jit.save`, read by torch; no code in a pickle runs."""

import io
import os
import pickle
import zipfile
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
from etils import epath

from xmodal.core.errors import UserError
from xmodal.core.files import is_in_object_store
from xmodal.core.untrusted import pickles

if TYPE_CHECKING:
    import torch

SUFFIXES = (".pth", ".pt", ".pth.tar", ".ckpt", ".bin")


def read_objects(path: epath.Path) -> Any:
    """Returns the object in a file of `torch.save`, or the state dict of a scripted module.

    Tensors are mapped from a local file. Objects of classes that torch does not load safely are
    `pickles.Inert`.

    Raises:
      UserError: torch is not installed.
      Exception: it cannot read the file; of any type.
    """
    try:
        import torch
    except ModuleNotFoundError as error:
        raise UserError(
            f"{path} needs torch: pip install torch --index-url https://download.pytorch.org/whl/cpu"
        ) from error
    source: Any = io.BytesIO(path.read_bytes()) if is_in_object_store(path) else os.fspath(path)
    is_zip = zipfile.is_zipfile(source)
    if is_zip:
        with zipfile.ZipFile(source) as archive:
            is_script = any(name.endswith("/constants.pkl") for name in archive.namelist())
        if is_script:
            return torch.jit.load(source, map_location="cpu").state_dict()
    mmap = is_zip and isinstance(source, str)
    try:
        return torch.load(source, "cpu", weights_only=True, mmap=mmap)
    except pickle.UnpicklingError:
        return torch.load(source, "cpu", pickle_module=pickles, weights_only=False, mmap=mmap)


def collect_arrays(value: Any, name: str = "") -> dict[str, np.ndarray]:
    """Returns all tensors in nested containers.

    A tensor is named by the keys that lead to it, joined by periods: in a state dict its own name,
    in a checkpoint `{"model": state_dict}` that name after `model.`, in a list its position.
    """
    import torch

    if isinstance(value, torch.Tensor):
        return {name: _to_array(value)}
    items: Any = enumerate(value) if isinstance(value, list | tuple) else ()
    if isinstance(value, Mapping):
        items = value.items()
    arrays: dict[str, np.ndarray] = {}
    for key, item in items:
        arrays |= collect_arrays(item, f"{name}.{key}" if name else str(key))
    return arrays


def _to_array(tensor: "torch.Tensor") -> np.ndarray:
    import torch

    if tensor.dtype == torch.bfloat16:
        return tensor.detach().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.detach().numpy()


def attributes(value: Any) -> Mapping[str, Any]:
    """Returns a mapping, or the attributes of an inert object; {} for anything else."""
    fields = value.state if isinstance(value, pickles.Inert) else value
    return fields if isinstance(fields, Mapping) else {}
