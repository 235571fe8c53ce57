"""Checksums of files: libraries do not notice a changed byte in an array."""

import hashlib
from collections.abc import Mapping

from etils import epath

from xmodal.core.errors import UserError

_CHUNK = 2**22


def sha256_of(path: epath.Path) -> str:
    """Returns the checksum of a file, in hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def check_files(folder: epath.Path, checksums: Mapping[str, str], remedy: str) -> None:
    """Raises an error unless files are as they were written.

    Args:
      folder: their folder.
      checksums: file name -> `sha256_of` it when it was written.
      remedy: the end of the error.
    """
    for name, expected in checksums.items():
        path = folder / name
        if not path.exists() or sha256_of(path) != expected:
            state = "damaged or truncated" if path.exists() else "missing"
            raise UserError(f"{path} is {state}: {remedy}")
