"""Reads arrays of Python objects that NumPy pickled under Python 2, without running any code."""

import pathlib
from typing import Any

import numpy as np

from xmodal.core.errors import UnexpectedFilesError
from xmodal.core.untrusted.pickles import DAMAGE, load


def read_objects(path: pathlib.Path) -> list[Any]:
    """Reads an .npy file with a one-dimensional array of objects.

    Args:
      path: the file.

    Returns:
      The objects. Non-Unicode strings are bytes.

    Raises:
      FileNotFoundError: there is no such file.
      UnexpectedFilesError: it is truncated or not such an array.
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
            objects = load(file, encoding="bytes")
        if np.shape(objects) != shape:
            raise ValueError(f"not an array of the shape {shape} in its header")
    except DAMAGE as error:
        raise UnexpectedFilesError(
            f"{path} is truncated, or not the array of objects that was published: {error}"
        ) from error
    return list(objects)
