"""Arrays saved by NumPy."""

import pathlib

import numpy as np

from xmodal.core.errors import UnexpectedFilesError


def read_ids(path: pathlib.Path) -> list[int]:
    """Reads a list of ids from an .npy file of integers.

    Raises:
      FileNotFoundError: there is no such file.
      UnexpectedFilesError: it is damaged, or not such a list.
    """
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    try:
        with path.open("rb") as file:
            ids = np.lib.format.read_array(file, allow_pickle=False)
    except Exception as error:  # Damaged headers make NumPy raise all kinds of errors.
        raise UnexpectedFilesError(f"{path} is damaged ({error}). Download it again.") from error
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise UnexpectedFilesError(
            f"{path} contains {ids.dtype} {list(ids.shape)}, not a list of ids"
        )
    return ids.tolist()
